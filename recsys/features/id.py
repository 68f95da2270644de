from collections.abc import Collection
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from recsys.errors.bounds import IdCount
from recsys.features.feature import NONE
from recsys.features.feature import FittedFeature
from recsys.features.feature import FittedFeatures
from recsys.features.feature import RawEncoder
from recsys.features.feature import State
from recsys.features.id_turnover import IdTurnover
from recsys.features.id_values import Unseen
from recsys.features.numbered_ids import ids_after_day
from recsys.features.numbered_ids import known_ids
from recsys.features.one_id import OneId
from recsys.features.one_id import OneRow
from recsys.features.value_counts import ValueCounts

if TYPE_CHECKING:
    from recsys.features.onnx_graph import OnnxGraph
    from recsys.features.onnx_graph import OnnxValue
    from recsys.features.vocabulary import Vocabulary


class Id(OneId):
    """Integers or strings of which only equality counts, as `as_ids` has them.

    A model learns a vector for each id of the training split, and one for all
    others, missing ones among them.

    Args:
        min_count: In how many rows of the training split an id must be to have
            a vector of its own. Defaults to 1.
        dim: Width of the vectors; that of the model unless given.
    """

    type = "id"
    has_vocabulary = True

    min_count: IdCount = 1

    def unseen(self, column: pd.Series, train: pd.Series) -> Unseen:
        return Unseen.of(column, train)

    def fit(
        self, parts: Iterable[pd.Series], owners: FittedFeatures = NONE
    ) -> "FittedId":
        with ValueCounts() as counts:
            for part in parts:
                counts.add(part)
            return FittedId(self, known_ids(counts, self.min_count))

    def after_day(
        self,
        parts: Iterable[pd.Series],
        before: FittedFeature | None,
        turnover: IdTurnover,
    ) -> "FittedId":
        known = None if before is None else before.vocabulary
        with ValueCounts() as counts:
            for part in parts:
                counts.add(part)
            ids = ids_after_day(counts, self.min_count, known, turnover)
        return FittedId(self, ids)

    def restore(
        self, state: State, owners: FittedFeatures = NONE
    ) -> "FittedId":
        from recsys.features.vocabulary import Vocabulary

        return FittedId(self, Vocabulary.from_config(state["vocabulary"]))


class FittedId(OneRow):
    """An id with the ids of the training split.

    Args:
        kind: What it is declared as.
        vocabulary: Those ids, numbered.
    """

    kind: Id
    vocabulary: "Vocabulary"

    def __init__(self, kind: Id, vocabulary: "Vocabulary") -> None:
        super().__init__(kind)
        self.vocabulary = vocabulary
        self.num_rows = vocabulary.size + 1
        self.dim = kind.dim

    @property
    def raw_dtype(self) -> str:  # type: ignore[override]
        return self.vocabulary.raw_dtype

    def grown(
        self, parts: Iterable[pd.Series], owners: FittedFeatures = NONE
    ) -> "FittedId":
        with ValueCounts() as counts:
            for part in parts:
                counts.add(part)
            ids = known_ids(counts, self.kind.min_count, self.vocabulary)
        return FittedId(self.kind, ids)

    def with_ids(self, column: pd.Series) -> "FittedId":
        """Returns the feature with further ids, however often they are there.

        Args:
            column: The ids; those that are known keep their numbers.
        """
        with ValueCounts() as counts:
            counts.add(column)
            return FittedId(self.kind, known_ids(counts, 1, self.vocabulary))

    def encode(self, column: pd.Series) -> np.ndarray:
        return self.vocabulary.encode(column)

    def renumbered(self, values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        return numbers[values]

    def raw_encoder(self) -> RawEncoder:
        table = self.vocabulary.lookup_table()
        return table.lookup, [table]

    def encode_onnx(self, graph: "OnnxGraph", raw: str) -> "list[OnnxValue]":
        from recsys.features.onnx_graph import OnnxValue

        numbers = self.vocabulary.look_up_onnx(graph, raw)
        return [OnnxValue(numbers, "int32", (None,))]

    def sample(
        self, generator: np.random.Generator, count: int
    ) -> Collection[object]:
        return self.vocabulary.sample(generator, count)

    def get_state(self) -> State:
        return {"vocabulary": self.vocabulary.get_config()}
