from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any
from typing import Literal

from pydantic import model_validator

from recsys.errors import DataError
from recsys.errors.bounds import Width
from recsys.errors.shown import shown
from recsys.features.feature import Feature
from recsys.features.feature import Rows
from recsys.features.id import Id
from recsys.features.id_list import FittedIdList
from recsys.features.id_list import IdList
from recsys.features.pooling import POOLINGS

if TYPE_CHECKING:
    import keras

    from keras_moe.types import Tensor
    from recsys.features.vocabulary import Vocabulary


class Sequence(IdList):
    """Events in order, oldest first, such as a history.

    What a model sees is one vector as in `Ids`, or the sum of the vectors
    weighted by what is asked about (`TargetAttention`).

    Args:
        of: Feature whose ids these are, to share its vocabulary and table.
        length: Most ids of a list that count, the last ones. Defaults to 50.
        pooling: `"mean"` (default), `"sum"`, `"max"` or `"attention"`.
        query: For attention, the id that the weights depend on: the feature
            that is also `of`.
        min_count: How often an id must be in the training split to have a
            vector of its own. Defaults to 1.
        dim: Width of the vectors; that of the model unless given.
    """

    type = "sequence"
    keeps_last = True

    length: Width = 50
    pooling: Literal["attention", "max", "mean", "sum"] = "mean"
    query: str | None = None

    @model_validator(mode="after")
    def _check_query(self) -> "Sequence":
        attends = self.pooling == "attention"
        if attends != (self.query is not None) or self.query not in (
            None,
            self.of,
        ):
            raise ValueError(
                "expected query only with pooling 'attention', and the same "
                f"feature as in of. Received: pooling={self.pooling!r}, "
                f"query={shown(self.query)}, of={shown(self.of)}"
            )
        return self

    def check_among(self, features: Mapping[str, Feature], name: str) -> None:
        super().check_among(features, name)
        if self.query is not None and not isinstance(features[self.query], Id):
            raise DataError.at(
                "'features'",
                "a `query` with one id per row",
                f"{shown(self.query)} with "
                f"{shown(features[self.query].declaration)}",
                column=name,
            )

    def fitted(self, vocabulary: "Vocabulary", length: int) -> FittedIdList:
        return FittedSequence(self, vocabulary, length)


class FittedSequence(FittedIdList):
    """A sequence with the ids of the training split."""

    kind: Sequence

    def __init__(self, kind: Sequence, *fitted: Any) -> None:
        super().__init__(kind, *fitted)
        self.query = kind.query

    def create_layer(self) -> "keras.layers.Layer | None":
        from recsys.features.target_attention import TargetAttention

        return None if self.query is None else TargetAttention()

    def vectors(
        self,
        values: "Tensor",
        rows: Rows = None,
        layer: "keras.layers.Layer | None" = None,
        query: "Tensor | None" = None,
    ) -> "Tensor":
        if layer is None:
            return super().vectors(values, rows)
        return layer(rows, query, values >= 0)

    def vectors_alone(
        self,
        values: "Tensor",
        rows: Rows = None,
        layer: "keras.layers.Layer | None" = None,
    ) -> "Tensor":
        """Their mean instead of attention."""
        if layer is None:
            return self.vectors(values, rows)
        return POOLINGS["mean"](rows, values >= 0)
