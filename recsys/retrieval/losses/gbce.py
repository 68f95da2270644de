from typing import Annotated

from keras import ops
from pydantic import Field

from keras_moe.types import Tensor
from recsys.retrieval.losses.loss import RetrievalLoss
from recsys.retrieval.losses.loss import negatives_of
from recsys.retrieval.losses.loss import own_scores
from recsys.retrieval.negatives import Candidates
from recsys.retrieval.negatives import UniformNegatives


class Gbce(RetrievalLoss):
    """Generalised binary cross-entropy, against overconfident scores.

    With K negatives of a row, n items, α = K / (n - 1) and the calibration t,

        β = α (t (1 - 1/α) + 1/α)
        loss_i = -(β log σ(s_ii) + Σ_j log(1 - σ(s_ij))) / (K + 1)

    t = 0 is the binary cross-entropy, t = 1 makes σ the probability that it
    would be without sampling. The paper draws the negatives of each position
    anew; here the rows of a batch share them.

    Attributes:
        calibration: Float in `[0, 1]`, t. Defaults to 0.75, as published.

    References:
        Petrov, Macdonald. gSASRec: Reducing Overconfidence in Sequential
        Recommendation Trained with Negative Sampling. RecSys 2023, section 5.
    """

    type = "gbce"
    negatives = UniformNegatives

    calibration: Annotated[float, Field(ge=0, le=1)] = 0.75

    def losses(self, candidates: Candidates, num_items: int) -> Tensor:
        there = ops.cast(negatives_of(candidates), "float32")
        count = ops.sum(there, axis=-1)  # (B,)
        rate = count / max(1, num_items - 1)
        exponent = self.calibration * (rate - 1) + 1
        of_own = ops.log_sigmoid(own_scores(candidates))
        of_others = ops.sum(there * ops.log_sigmoid(-candidates.scores), -1)
        return -(exponent * of_own + of_others) / (count + 1)
