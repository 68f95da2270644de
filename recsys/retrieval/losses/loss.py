from typing import Any
from typing import ClassVar

from keras import ops
from pydantic import BaseModel
from pydantic import ConfigDict

from keras_moe.types import Tensor
from recsys.config.fields import Rate
from recsys.errors.bounds import Count
from recsys.files.json_files import JsonObject
from recsys.retrieval.negatives import Candidates
from recsys.retrieval.negatives import Negatives

# Within the class, `type` is its name.
NegativesClass = type[Negatives]


class RetrievalLoss(BaseModel):
    """A loss by which towers learn to find a row's item, with its options.

    Attributes:
        type: Its name.
        negatives: The items that a row's own is compared with.
        corrects: Whether scores are corrected for the share of the rows with
            an item unless told otherwise; see `Retrieval`.
        cosines: Whether it is a function of cosines alone.
        num_negatives: Integer, the number of items to draw for a batch;
            ignored by negatives that are not drawn. Defaults to 1000.
        hard_negatives: Integer, the number of negatives with the highest
            scores that a row is compared with; all with `None` (default).
        temperature: Float that the cosine of query and item is divided by;
            scores are dot products with `None` (default).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    type: ClassVar[str]
    negatives: ClassVar[NegativesClass]
    corrects: ClassVar[bool] = False
    cosines: ClassVar[bool] = False

    num_negatives: Count = 1000
    hard_negatives: Count | None = None
    temperature: Rate | None = None

    def losses(self, candidates: Candidates, num_items: int) -> Tensor:
        """Returns the loss of each row, float32 `(B,)`.

        Args:
            candidates: The items of the rows and their negatives.
            num_items: Integer, the size of the catalogue.
        """
        raise NotImplementedError

    def negatives_in(self, num_items: int) -> Negatives:
        """Returns the negatives of its rows in a catalogue.

        Args:
            num_items: Integer, the size of the catalogue.
        """
        return self.negatives(num_items, self.num_negatives)

    @property
    def declaration(self) -> JsonObject:
        """Its type and its options, for JSON."""
        return {"type": self.type, **self.model_dump()}


def own_scores(candidates: Candidates) -> Tensor:
    """Returns the scores of the rows' own items, `(B,)`."""
    return ops.sum(
        ops.where(candidates.positives, candidates.scores, 0.0), axis=-1
    )


def negatives_of(candidates: Candidates) -> Tensor:
    """Returns where candidates are negatives, boolean `(B, C)`."""
    return ops.logical_and(
        candidates.counted, ops.logical_not(candidates.positives)
    )


def mean_of_negatives(values: Any, candidates: Candidates) -> Tensor:
    """Returns means over the negatives of each row, `(B,)`; 0 without any.

    Args:
        values: Float32 tensor `(B, C)`.
        candidates: The candidates that they are of.
    """
    there = ops.cast(negatives_of(candidates), "float32")
    count = ops.maximum(ops.sum(there, axis=-1), 1.0)
    return ops.sum(ops.where(there > 0, values, 0.0), axis=-1) / count
