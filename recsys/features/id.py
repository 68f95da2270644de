import itertools
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import pandas as pd

from recsys.column_values import LARGEST_EXACT
from recsys.column_values import as_strings
from recsys.column_values import refuse
from recsys.errors import DataError
from recsys.features.feature import Feature
from recsys.features.fitted_feature import FittedFeature
from recsys.features.unseen import Unseen

if TYPE_CHECKING:
    from recsys.features.vocabulary import Vocabulary


class Id(Feature):
    """Integers or strings of which only equality counts.

    A column is integers (`int64`, or `Int64` where some are missing) or
    strings: floats that are whole numbers become integers, a column that mixes
    integers and strings becomes strings. An empty string is missing.

    A model learns a vector for each id of the training split, and one for all
    others, missing ones among them.
    """

    type = "id"
    routable = True

    def check(self, column: "pd.Series[Any]", file: object) -> "pd.Series[Any]":
        kind = pd.api.types.infer_dtype(column, skipna=True)
        if kind in ("integer", "empty"):
            return _integers(column)
        if kind in ("floating", "mixed-integer-float"):
            floats = column.astype("float64")
            whole = (floats % 1 == 0) & (floats.abs() <= LARGEST_EXACT)
            fractions = ~whole & floats.notna()
            refuse(column, fractions, "an integer or a string", file)
            return _integers(floats)
        if kind == "string":
            return column.where(column != "")
        allowed = column.map(_is_id).astype(bool) | column.isna()
        refuse(column, ~allowed, "an integer or a string", file)
        return as_strings(column)

    def unified(
        self, columns: Sequence["pd.Series[Any]"]
    ) -> Sequence["pd.Series[Any]"]:
        """Makes all columns strings if one of them is."""
        integers = [pd.api.types.is_integer_dtype(one) for one in columns]
        if any(integers) and not all(integers):
            return [as_strings(column) for column in columns]
        return columns

    def unseen(
        self, column: "pd.Series[Any]", train: "pd.Series[Any]"
    ) -> Unseen:
        return Unseen.of(column, train)

    def fit(self, parts: Iterable["pd.Series[Any]"]) -> "FittedId":
        from recsys.features.vocabulary import Vocabulary

        known = [part.dropna().drop_duplicates() for part in parts]
        return FittedId(self, Vocabulary.of(pd.concat(known)))

    def restore(self, state: dict[str, Any]) -> "FittedId":
        from recsys.features.vocabulary import Vocabulary

        return FittedId(self, Vocabulary.from_config(state["vocabulary"]))


class FittedId(FittedFeature):
    """An id with the ids of the training split.

    Args:
        kind: What it is declared as.
        vocabulary: Those ids, numbered.
    """

    vocabulary: "Vocabulary"

    def __init__(self, kind: Id, vocabulary: "Vocabulary") -> None:
        super().__init__(kind)
        self.vocabulary = vocabulary

    @property
    def raw_dtype(self) -> str:  # type: ignore[override]
        return "string" if self.vocabulary.holds_strings else "int64"

    def encode(self, column: "pd.Series[Any]") -> Any:
        return self.vocabulary.encode(column)

    def check_encoded(self, name: str, values: Any) -> None:
        super().check_encoded(name, values)
        most = self.vocabulary.size
        whole = values.dtype.kind != "f"
        if not whole or not 0 <= values.min() <= values.max() <= most:
            raise DataError.at(
                f"feature {name!r}",
                f"numbers of ids, from 0 to {most}",
                f"{values.dtype} from {values.min()} to {values.max()}",
            )

    def width(self, embedding_dim: int) -> int:
        return embedding_dim

    def vectors(self, values: Any, rows: Any) -> Any:
        return rows

    def raw_encoder(self) -> tuple[Callable[[Any], Any], list[Any]]:
        """The vocabulary as a table; what it does not have is unknown."""
        import tensorflow as tf

        numbers = {id: i for i, id in enumerate(self.vocabulary.values, 1)}
        numbers = numbers or {"": 0}  # TensorFlow has no empty table.
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.constant(list(numbers), self.raw_dtype),
                tf.constant(list(numbers.values()), tf.int32),
            ),
            default_value=0,
        )
        return table.lookup, [table]

    def sample(self, generator: np.random.Generator, count: int) -> Any:
        known = self.vocabulary.values.tolist()
        if self.vocabulary.holds_strings:
            unknown = max(known, key=len, default="") + "?"
        else:
            taken = set(known)
            unknown = next(i for i in itertools.count() if i not in taken)
        ids = [*known, unknown]
        drawn = generator.integers(0, len(ids), count)
        drawn[::7] = len(known)  # The unknown one, however many others.
        return [ids[index] for index in drawn]

    def get_state(self) -> dict[str, Any]:
        return {"vocabulary": self.vocabulary.get_config()}


def _is_id(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int | np.integer | str)


def _integers(column: "pd.Series[Any]") -> "pd.Series[Any]":
    integers = column.astype("Int64")
    return integers if column.hasnans else integers.astype("int64")
