from recsys.retrieval.losses.softmax import Softmax
from recsys.retrieval.negatives import MixedNegatives


class MixedSoftmax(Softmax):
    """Cross-entropy of a softmax over the items of a batch and drawn ones.

    Rare items, which hardly occur in a batch, become negatives as well. With
    q_j the share of the rows with item j, B rows in the batch and N drawn from
    n items, j is a candidate B q_j + N / n times.

    References:
        Yang et al. Mixed Negative Sampling for Learning Two-tower Neural
        Networks in Recommendations. WWW 2020 companion, section 3.2.
    """

    type = "mixed-softmax"
    negatives = MixedNegatives
