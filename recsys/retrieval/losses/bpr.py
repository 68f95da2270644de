from keras import ops

from keras_moe.types import Tensor
from recsys.retrieval.losses.loss import RetrievalLoss
from recsys.retrieval.losses.loss import mean_of_negatives
from recsys.retrieval.losses.loss import own_scores
from recsys.retrieval.negatives import Candidates
from recsys.retrieval.negatives import UniformNegatives


class Bpr(RetrievalLoss):
    """Bayesian personalised ranking: an item before each of its negatives.

        loss_i = -mean_j log σ(s_ii - s_ij)

    The paper draws a negative for each row; here the rows of a batch share
    theirs.

    References:
        Rendle, Freudenthaler, Gantner, Schmidt-Thieme. BPR: Bayesian
        Personalized Ranking from Implicit Feedback. UAI 2009, section 4.
    """

    type = "bpr"
    negatives = UniformNegatives

    def losses(self, candidates: Candidates, num_items: int) -> Tensor:
        margins = own_scores(candidates)[:, None] - candidates.scores
        return mean_of_negatives(-ops.log_sigmoid(margins), candidates)
