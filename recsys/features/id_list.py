"""Common parts of features with a list of ids per row."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import ClassVar
from typing import cast

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import model_validator

from recsys.errors import DataError
from recsys.errors.bounds import IdCount
from recsys.errors.bounds import Width
from recsys.errors.shown import shown
from recsys.features.feature import MISSING
from recsys.features.feature import NONE
from recsys.features.feature import Feature
from recsys.features.feature import FittedFeature
from recsys.features.feature import FittedFeatures
from recsys.features.feature import RawEncoder
from recsys.features.feature import Rows
from recsys.features.feature import State
from recsys.features.feature import check_numbered
from recsys.features.id_turnover import IdTurnover
from recsys.features.id_values import Unseen
from recsys.features.id_values import as_ids
from recsys.features.list_values import flattened
from recsys.features.list_values import is_packed
from recsys.features.list_values import lengths_of
from recsys.features.list_values import packed_again
from recsys.features.list_values import places_of
from recsys.features.list_values import split
from recsys.features.list_values import values_of
from recsys.features.numbered_ids import ids_after_day
from recsys.features.numbered_ids import known_ids
from recsys.features.pooling import POOLINGS
from recsys.features.value_counts import ValueCounts
from recsys.serving.tensor_spec import ListLength

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from keras_moe.types import Tensor
    from recsys.features.onnx_graph import OnnxGraph
    from recsys.features.onnx_graph import OnnxValue
    from recsys.features.vocabulary import Vocabulary

NOTHING = -1  # The same once ids are numbered.


class IdList(Feature):
    """A list of ids in each row, of any length.

    A missing list is an empty one, and what is missing in a list is left out.

    Attributes:
        keeps_last: Whether the last ids of a long list are kept rather than
            the first.

    Args:
        of: Feature whose ids these are, to share its vocabulary and table.
        length: Most ids of a list that count; all of them unless given.
        pooling: How the vectors of the ids become one.
        min_count: How often an id must be in the training split to have a
            vector of its own. Defaults to 1.
        dim: Width of the vectors; that of the model unless given.
    """

    packs_lists: ClassVar[bool] = True
    keeps_last: ClassVar[bool] = False
    has_vocabulary: ClassVar[bool] = True

    of: str | None = None
    length: Width | None = None
    pooling: str = "mean"
    min_count: IdCount | None = None
    dim: Width | None = None

    @model_validator(mode="after")
    def _check_table(self) -> "IdList":
        for name in ("min_count", "dim"):
            value = getattr(self, name)
            if self.of is not None and value is not None:
                raise ValueError(
                    f"expected {name} in the declaration of {shown(self.of)}, "
                    f"which has the table. Received: {name}={value} beside "
                    f"of={shown(self.of)}"
                )
        return self

    @property
    def shares(self) -> str | None:
        return self.of

    def check_among(self, features: Mapping[str, Feature], name: str) -> None:
        owners = [
            owner
            for owner, kind in features.items()
            if kind.has_vocabulary and kind.shares is None and owner != name
        ]
        if self.of is not None and self.of not in owners:
            raise DataError.at(
                "'features'",
                f"an `of` among the features with ids of their own, {owners}",
                shown(self.of),
                column=name,
            )

    def check(self, column: pd.Series, file: object) -> pd.Series:
        if (lists := packed_again(column)) is not None:
            return lists
        values, lengths = flattened(column, file)
        ids = as_ids(values, file)
        there = ids.notna()
        lengths = np.bincount(ids.index[there], minlength=len(lengths))
        known = ids[there]
        if pd.api.types.is_integer_dtype(known.dtype):
            known = known.astype("int64")
        return split(known.to_numpy(), lengths, column.name)

    def unified(self, columns: Sequence[pd.Series]) -> Sequence[pd.Series]:
        """Makes all ids strings if one of them is."""
        if any(map(is_packed, columns)):
            columns = [
                split(
                    values_of(column).to_numpy(),
                    lengths_of(column),
                    column.name,
                ).set_axis(column.index)
                for column in columns
            ]
        kinds = {
            ids.dtype.kind for column in columns for ids in column if len(ids)
        }
        if len(kinds) < 2:
            return columns
        return [
            column.map(lambda ids: np.array([*map(str, ids)], object))
            for column in columns
        ]

    def unseen(self, column: pd.Series, train: pd.Series) -> Unseen | None:
        """Counts occurrences in lists as rows; of own ids alone."""
        if self.of is not None:
            return None
        return Unseen.of(self.occurring(column), self.occurring(train))

    def fit(
        self, parts: Iterable[pd.Series], owners: FittedFeatures = NONE
    ) -> "FittedIdList":
        longest = 1
        with ValueCounts() as counts:
            for part in parts:
                longest = max(longest, int(lengths_of(part).max(initial=0)))
                if self.of is None:
                    counts.add(self.occurring(part))
            if self.of is None:
                vocabulary = known_ids(counts, self.min_count or 1)
            else:
                vocabulary = cast("Vocabulary", owners[self.of].vocabulary)
        return self.fitted(vocabulary, self.length or longest)

    def after_day(
        self,
        parts: Iterable[pd.Series],
        before: FittedFeature | None,
        turnover: IdTurnover,
    ) -> "FittedIdList":
        longest = 1
        known = None if before is None else before.vocabulary
        with ValueCounts() as counts:
            for part in parts:
                longest = max(longest, int(lengths_of(part).max(initial=0)))
                counts.add(self.occurring(part))
            ids = ids_after_day(counts, self.min_count or 1, known, turnover)
        if isinstance(before, FittedIdList):
            return self.fitted(ids, before.length)
        return self.fitted(ids, self.length or longest)

    def occurring(self, column: pd.Series) -> pd.Series:
        """Returns the ids of all lists one after the other.

        Args:
            column: As `check` returns it.
        """
        return values_of(column)

    def restore(
        self, state: State, owners: FittedFeatures = NONE
    ) -> "FittedIdList":
        from recsys.features.vocabulary import Vocabulary

        if self.of is None:
            vocabulary = Vocabulary.from_config(state["vocabulary"])
        else:
            vocabulary = cast("Vocabulary", owners[self.of].vocabulary)
        return self.fitted(vocabulary, state["length"])

    def fitted(self, vocabulary: "Vocabulary", length: int) -> "FittedIdList":
        """Returns what the arguments of `FittedIdList` make of it."""
        return FittedIdList(self, vocabulary, length)


class FittedIdList(FittedFeature):
    """A list of ids with the ids of the training split.

    Args:
        kind: What it is declared as.
        vocabulary: Those ids, numbered.
        length: Integer, how many ids a list has room for; where the kind has
            no `length`, longer lists get more.
    """

    kind: IdList
    vocabulary: "Vocabulary"
    raw_rank = 2

    def __init__(
        self, kind: IdList, vocabulary: "Vocabulary", length: int
    ) -> None:
        super().__init__(kind)
        self.vocabulary = vocabulary
        self.length = length
        self.of = kind.of
        self.dim = kind.dim
        self.num_rows = None if kind.of else vocabulary.size + 1

    @property
    def raw_dtype(self) -> str:  # type: ignore[override]
        return self.vocabulary.raw_dtype

    @property
    def raw_length(self) -> ListLength | None:  # type: ignore[override]
        length = self.kind.length
        if length is None:
            return None
        return ListLength(length, self.kind.keeps_last)

    def grown(
        self, parts: Iterable[pd.Series], owners: FittedFeatures = NONE
    ) -> "FittedIdList":
        if self.of is None:
            least = self.kind.min_count or 1
            with ValueCounts() as counts:
                for part in parts:
                    counts.add(self.kind.occurring(part))
                ids = known_ids(counts, least, self.vocabulary)
        else:
            ids = cast("Vocabulary", owners[self.of].vocabulary)
        return self.kind.fitted(ids, self.length)

    def encode(self, column: pd.Series) -> np.ndarray:
        """Returns the numbers of the ids, -1 behind the end of a list."""
        return self._padded(column, self.vocabulary.encode(values_of(column)))

    def _padded(self, column: pd.Series, values: np.ndarray) -> np.ndarray:
        """Puts the values of lists into rows of one length.

        Args:
            column: The lists.
            values: Array of what becomes of their values, one after the other,
                `(values, ...)`.

        Returns:
            Int32 array `(rows, room, ...)`, -1 behind the end of a list.
        """
        rows, places = places_of(column)
        lengths = lengths_of(column)
        room = self.length
        if self.kind.length is None:
            room = max(room, int(lengths.max(initial=0)))
        if self.kind.keeps_last:
            places = places - np.maximum(lengths - room, 0)[rows]
        kept = (places >= 0) & (places < room)
        shape = (len(column), room, *values.shape[1:])
        padded = np.full(shape, NOTHING, np.int32)
        padded[rows[kept], places[kept]] = values[kept]
        return padded

    def renumbered(self, values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        return np.where(values >= 0, numbers[values], values)

    def check_encoded(self, name: str, values: np.ndarray) -> None:
        if values.ndim != 2:
            raise DataError.at(
                f"feature {name!r}", "a list of ids per row", f"{values.shape}"
            )
        check_numbered(name, values, NOTHING, self.vocabulary.size)

    def ids(self, values: "Tensor") -> "Tensor":
        from keras import ops

        return ops.maximum(values, 0)

    def width(self, dim: int) -> int:
        return dim

    def vectors(
        self,
        values: "Tensor",
        rows: Rows = None,
        layer: "keras.layers.Layer | None" = None,
        query: "Tensor | None" = None,
    ) -> "Tensor":
        return POOLINGS[self.kind.pooling](rows, values >= 0)

    def raw(self, column: pd.Series) -> np.ndarray:
        """Lists as an array, with `MISSING` behind the end of short ones."""
        rows, places = places_of(column)
        shape = (len(column), max(1, int(places.max(initial=0)) + 1))
        dtype = object if self.raw_dtype == "string" else np.int64
        raw = np.full(shape, MISSING[self.raw_dtype], dtype)
        raw[rows, places] = super().raw(values_of(column))
        return raw

    def takes(self, column: pd.Series) -> npt.NDArray[np.bool_]:
        rows, _ = places_of(column)
        taken = np.ones(len(column), bool)
        taken[rows[~super().takes(values_of(column))]] = False
        return taken

    def raw_encoder(self) -> RawEncoder:
        import tensorflow as tf

        table = self.vocabulary.lookup_table()
        length = self.kind.length

        def encode(raw: "tf.Tensor") -> "tf.Tensor":
            there = raw != tf.constant(MISSING[self.raw_dtype], raw.dtype)
            lists = tf.ragged.boolean_mask(raw, there)
            if length is not None:
                lists = (
                    lists[:, -length:]
                    if self.kind.keeps_last
                    else lists[:, :length]
                )
            values = self._encode_raw(lists.flat_values, table)
            dense = lists.with_flat_values(values).to_tensor(NOTHING)
            # Room for one more: there may be no id in any list.
            room = [[0, 0], [0, 1], *[[0, 0]] * (dense.shape.rank - 2)]
            return tf.pad(dense, room, constant_values=NOTHING)

        return encode, [table]

    def _encode_raw(
        self, values: "tf.Tensor", table: "tf.lookup.StaticHashTable"
    ) -> "tf.Tensor":
        """Encodes the values of lists, one after the other, in TensorFlow.

        Args:
            values: Tensor `(values,)` of `raw_dtype`.
            table: What numbers ids.

        Returns:
            Int32 tensor `(values, ...)`.
        """
        return table.lookup(values)

    def encode_onnx(self, graph: "OnnxGraph", raw: str) -> "list[OnnxValue]":
        """As `encode`, with -1 also where an id that does not count stands."""
        from recsys.features.onnx_graph import OnnxValue

        raw, kept = self._keep_onnx(graph, raw)
        numbers = graph.add(
            "Where",
            kept,
            self.vocabulary.look_up_onnx(graph, raw),
            graph.constant(NOTHING, "int32"),
        )
        return [OnnxValue(numbers, "int32", (None, None))]

    def _keep_onnx(self, graph: "OnnxGraph", raw: str) -> tuple[str, str]:
        """Adds which ids of lists count to an ONNX graph.

        Returns:
            The names of the lists, with room for at least one id, and of a
            boolean tensor `(batch, room)`.
        """
        dtype = "object" if self.raw_dtype == "string" else "int64"
        nothing = graph.constant(MISSING[self.raw_dtype], dtype)
        # Room for one more: there may be no id in any list.
        batch = graph.add("Shape", raw, start=0, end=1)
        column = graph.add("Concat", batch, graph.constant([1]), axis=0)
        more = graph.add("Expand", nothing, column)
        raw = graph.add("Concat", raw, more, axis=1)
        there = graph.add("Not", graph.add("Equal", raw, nothing))
        length = self.kind.length
        if length is None:
            return raw, there
        # How many ids there are up to each, from the end that is kept.
        count = graph.add(
            "CumSum",
            graph.cast(there, "int32"),
            graph.constant(1),
            reverse=int(self.kind.keeps_last),
        )
        near = graph.add("LessOrEqual", count, graph.constant(length, "int32"))
        return raw, graph.add("And", there, near)

    def sample(self, generator: np.random.Generator, count: int) -> pd.Series:
        lengths = generator.integers(0, self.length + 3, count)
        lengths[::5] = 0
        ids = self.vocabulary.sample(generator, int(lengths.sum()))
        dtype = object if self.raw_dtype == "string" else np.int64
        return split(np.array(ids, dtype), lengths, None)

    def get_state(self) -> State:
        if self.of is not None:
            return {"length": self.length}
        vocabulary = self.vocabulary.get_config()
        return {"vocabulary": vocabulary, "length": self.length}
