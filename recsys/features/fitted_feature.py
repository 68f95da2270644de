from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import pandas as pd

from recsys.errors import DataError
from recsys.features.feature import Feature

if TYPE_CHECKING:
    from recsys.features.vocabulary import Vocabulary


class FittedFeature:
    """A feature as a model has it: with what its training split taught.

    A feature with a vocabulary has a table of the model, a row for each id and
    row 0 for all unknown ones; the model looks its values up there.

    Attributes:
        vocabulary: What numbers its ids, `None` without ids.
        raw_dtype: What a SavedModel takes for it: `"float32"`, `"int64"` or
            `"string"`.

    Args:
        kind: What it is declared as.
    """

    vocabulary: "Vocabulary | None" = None
    raw_dtype: str

    def __init__(self, kind: Feature) -> None:
        self.kind = kind

    def encode(self, column: "pd.Series[Any]") -> Any:
        """Returns a checked column as the array that a model takes.

        Args:
            column: As `check` of the kind returns it.

        Returns:
            An int32 or float32 array `(rows,)`.
        """
        raise NotImplementedError

    def check_encoded(self, name: str, values: Any) -> None:
        """Checks that an array is what `encode` returns.

        Args:
            name: The feature, for the error message.
            values: An array of numbers that has been kept.

        Raises:
            DataError: It is not.
        """
        if values.ndim != 1:
            raise DataError.at(
                f"feature {name!r}", "one value per row", f"{values.shape}"
            )

    def width(self, embedding_dim: int) -> int:
        """Returns how many numbers `vectors` has for a row.

        Args:
            embedding_dim: Width of the model's tables.
        """
        raise NotImplementedError

    def vectors(self, values: Any, rows: Any) -> Any:
        """Returns what the experts see of the feature, `(batch, width)`.

        Args:
            values: A batch of what `encode` returns.
            rows: The rows of the feature's table for it, `(batch,
                embedding_dim)`; `None` without a table.
        """
        raise NotImplementedError

    def raw(self, column: "pd.Series[Any]") -> Any:
        """Returns a checked column as a SavedModel takes it."""
        dtype = np.str_ if self.raw_dtype == "string" else self.raw_dtype
        return column.to_numpy().astype(dtype)

    def raw_encoder(self) -> tuple[Callable[[Any], Any], list[Any]]:
        """Returns `encode` as a SavedModel does it, under TensorFlow.

        Returns:
            A function from a tensor `(batch,)` of `raw_dtype` to what `encode`
            returns, and the resources that it needs.
        """
        raise NotImplementedError

    def sample(self, generator: np.random.Generator, count: int) -> Any:
        """Draws values to try a model with, known, unknown and missing ones.

        Args:
            generator: Draws.
            count: How many.
        """
        raise NotImplementedError

    def get_state(self) -> dict[str, Any]:
        """Returns what was fitted, ready for JSON; `restore` takes it."""
        raise NotImplementedError
