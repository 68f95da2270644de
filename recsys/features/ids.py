from typing import TYPE_CHECKING
from typing import Literal

import pandas as pd
from pydantic import model_validator

from recsys.features.id_list import FittedIdList
from recsys.features.id_list import IdList
from recsys.features.weighted_ids import FittedWeightedIds
from recsys.features.weighted_ids import check_weighted
from recsys.features.weighted_ids import ids_and_weights

if TYPE_CHECKING:
    from recsys.features.vocabulary import Vocabulary


class Ids(IdList):
    """A set of ids in each row, such as tags or genres.

    What a model sees is the mean, the sum or the largest number in each place
    of the vectors of the ids; an empty list is all zeros.

    Args:
        of: Feature whose ids these are, to share its vocabulary and table.
        length: Most ids of a list that count, the first ones; all of them
            unless given.
        pooling: `"mean"` (default), `"sum"` or `"max"`.
        weighted: Whether each id has a weight: lists have texts such as
            `"drama:0.7"`, of an id and a finite number. A sum is of the
            vectors times the weights; a mean is that sum divided by the sum of
            the weights, which are at least 0 then, and all zeros where that is
            0. Defaults to `False`.
        min_count: How often an id must be in the training split to have a
            vector of its own. Defaults to 1.
        dim: Width of the vectors; that of the model unless given.
    """

    type = "ids"

    pooling: Literal["max", "mean", "sum"] = "mean"
    weighted: bool = False

    @model_validator(mode="after")
    def _check_weighted(self) -> "Ids":
        if self.weighted and self.pooling == "max":
            raise ValueError(
                "expected pooling 'mean' or 'sum' for weighted ids. "
                f"Received: pooling={self.pooling!r}"
            )
        return self

    def check(self, column: pd.Series, file: object) -> pd.Series:
        if not self.weighted:
            return super().check(column, file)
        return check_weighted(column, file, negative=self.pooling != "mean")

    def occurring(self, column: pd.Series) -> pd.Series:
        ids = super().occurring(column)
        return ids_and_weights(ids)[0] if self.weighted else ids

    def fitted(self, vocabulary: "Vocabulary", length: int) -> FittedIdList:
        if self.weighted:
            return FittedWeightedIds(self, vocabulary, length)
        return super().fitted(vocabulary, length)
