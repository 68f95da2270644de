from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from recsys.errors.bounds import Width
from recsys.features.feature import Feature
from recsys.features.feature import FittedFeature
from recsys.features.feature import Rows
from recsys.features.feature import check_numbered
from recsys.features.id_values import as_ids
from recsys.features.id_values import unified_ids

if TYPE_CHECKING:
    import keras

    from keras_moe.types import Tensor


class OneId(Feature):
    """Common parts of features with one id per row.

    Args:
        dim: Width of the vectors; that of the model unless given.
    """

    groups = True

    dim: Width | None = None

    @property
    def routable(self) -> bool:
        return True

    def check(self, column: pd.Series, file: object) -> pd.Series:
        return as_ids(column, file)

    def unified(self, columns: Sequence[pd.Series]) -> Sequence[pd.Series]:
        return unified_ids(columns)


class OneRow(FittedFeature):
    """A feature that is one row of a table of its own, such as an id."""

    num_rows: int

    def check_encoded(self, name: str, values: np.ndarray) -> None:
        super().check_encoded(name, values)
        check_numbered(name, values, 0, self.num_rows - 1)

    def width(self, dim: int) -> int:
        return dim

    def vectors(
        self,
        values: "Tensor",
        rows: Rows = None,
        layer: "keras.layers.Layer | None" = None,
        query: "Tensor | None" = None,
    ) -> "Tensor":
        return rows
