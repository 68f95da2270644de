from recsys.retrieval.losses.softmax import Softmax
from recsys.retrieval.negatives import UniformNegatives


class SampledSoftmax(Softmax):
    """Cross-entropy of a softmax over an item and uniformly drawn ones.

    References:
        Jean, Cho, Memisevic, Bengio. On Using Very Large Target Vocabulary for
        Neural Machine Translation. ACL 2015, section 3, for the sampling.
    """

    type = "sampled-softmax"
    negatives = UniformNegatives
