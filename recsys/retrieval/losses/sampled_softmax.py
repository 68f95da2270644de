from recsys.retrieval.losses.softmax import Softmax
from recsys.retrieval.negatives import UniformNegatives


class SampledSoftmax(Softmax):
    """Cross-entropy of a softmax over an item and uniformly drawn ones.

    With D the items that were drawn for the batch, uniformly and with
    replacement,

        loss_i = log(exp(s_ii) + Σ_{j in D, j ≠ i} exp(s_ij)) - s_ii

    All items are equally likely to be drawn, so none needs a correction.

    References:
        Jean, Cho, Memisevic, Bengio. On Using Very Large Target Vocabulary for
        Neural Machine Translation. ACL 2015, section 3, for the sampling.
    """

    type = "sampled-softmax"
    negatives = UniformNegatives
