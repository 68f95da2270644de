from recsys.retrieval.losses.softmax import Softmax
from recsys.retrieval.negatives import MixedNegatives


class MixedSoftmax(Softmax):
    """Cross-entropy of a softmax over the items of a batch and drawn ones.

    Rare items, which hardly occur in a batch, become negatives as well. With
    q_j the share of the rows with item j, B rows in the batch and N drawn from
    n items, j is a candidate c_j = B q_j + N / n times on average, and

        loss_i = log(Σ_j exp(s_ij - log c_j)) - (s_ii - log c_i)

    over row i, the rows of the batch with another item than row i, and the
    drawn items other than that of row i.

    References:
        Yang et al. Mixed Negative Sampling for Learning Two-tower Neural
        Networks in Recommendations. WWW 2020 companion, section 3.2.
    """

    type = "mixed-softmax"
    negatives = MixedNegatives
