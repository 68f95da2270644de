from recsys.retrieval.losses.softmax import Softmax
from recsys.retrieval.negatives import AllItems

# Above, a step takes longer over the items than over all else.
MOST_ITEMS = 50_000


class FullSoftmax(Softmax):
    """Cross-entropy of a softmax over all items of the catalogue.

    A step computes the vectors of all items: for catalogues of up to 50,000.
    """

    type = "full-softmax"
    negatives = AllItems
