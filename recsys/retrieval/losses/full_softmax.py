from keras import ops

from keras_moe.types import Tensor
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

    def losses_of_pairs(
        self, scores: Tensor, queries: Tensor, items: Tensor
    ) -> Tensor:
        """Returns the losses of rows that share their queries, `(P,)`.

        Each is that of a row alone: a query is compared with all items once,
        for whichever of them it is to find.

        Args:
            scores: Float32 tensor `(Q, N)`, of all items for each query.
            queries: Integer tensor `(P,)`, the query of each row.
            items: Integer tensor `(P,)`, its item, both counted from 0.
        """
        num_items = ops.shape(scores)[1]
        places = queries * num_items + items
        own = ops.take(ops.reshape(scores, (-1,)), places, axis=0)
        totals = ops.logsumexp(scores, axis=-1)
        return ops.take(totals, queries, axis=0) - own
