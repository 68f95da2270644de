from keras import ops

from keras_moe.types import Tensor
from recsys.retrieval.losses.loss import RetrievalLoss
from recsys.retrieval.losses.loss import own_scores
from recsys.retrieval.negatives import NO_CANDIDATE
from recsys.retrieval.negatives import Candidates
from recsys.retrieval.negatives import Negatives


class Softmax(RetrievalLoss):
    """Cross-entropy of a softmax over the items of a batch.

    Frequent items are negatives more often. With q_j the share of the rows
    with item j,

        loss_i = log(Σ_j exp(s_ij - log q_j)) - (s_ii - log q_i)

    over all rows j of the batch, row i among them, except the other rows with
    the item of row i.

    References:
        Yi et al. Sampling-Bias-Corrected Neural Modeling for Large Corpus
        Item Recommendations. RecSys 2019, section 3, equations 3 to 5.
    """

    type = "softmax"
    negatives = Negatives
    corrects = True

    def losses(self, candidates: Candidates, num_items: int) -> Tensor:
        scores = ops.where(candidates.counted, candidates.scores, NO_CANDIDATE)
        return ops.logsumexp(scores, axis=-1) - own_scores(candidates)
