from typing import Annotated
from typing import Self

from keras import ops
from pydantic import Field
from pydantic import model_validator

from keras_moe.types import Tensor
from recsys.config.fields import Weight
from recsys.retrieval.losses.loss import RetrievalLoss
from recsys.retrieval.losses.loss import mean_of_negatives
from recsys.retrieval.losses.loss import own_scores
from recsys.retrieval.negatives import Candidates
from recsys.retrieval.negatives import UniformNegatives


class CosineContrastive(RetrievalLoss):
    """Cosine contrastive loss: an item near, its negatives beyond a margin.

    With ŷ_ij the cosine of u_i and v_j, w the weight and m the margin,

        loss_i = (1 - ŷ_ii) + w mean_j max(0, ŷ_ij - m)

    The paper draws the negatives of each row anew; here the rows of a batch
    share them.

    Attributes:
        margin: Float in `[-1, 1]`, m. Defaults to 0.9.
        negative_weight: Float, w. Defaults to 150.

    References:
        Mao et al. SimpleX: A Simple and Strong Baseline for Collaborative
        Filtering. CIKM 2021, section 3.1, equation 1.
    """

    type = "cosine-contrastive"
    negatives = UniformNegatives
    cosines = True

    margin: Annotated[float, Field(ge=-1, le=1)] = 0.9
    negative_weight: Weight = 150.0

    @model_validator(mode="after")
    def _check_temperature(self) -> Self:
        if self.temperature is not None:
            raise ValueError(
                "`temperature` must be left out for cosine-contrastive, whose "
                f"margin is one of cosines. Received: {self.temperature}"
            )
        return self

    def losses(self, candidates: Candidates, num_items: int) -> Tensor:
        beyond = ops.relu(candidates.scores - self.margin)
        return (1 - own_scores(candidates)) + (
            self.negative_weight * mean_of_negatives(beyond, candidates)
        )
