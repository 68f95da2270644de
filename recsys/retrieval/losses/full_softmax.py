from keras import ops

from keras_moe.types import Tensor
from recsys.retrieval.losses.softmax import Softmax
from recsys.retrieval.negatives import AllItems

# Above, a step takes longer over the items than over all else.
MOST_ITEMS = 50_000


class FullSoftmax(Softmax):
    """Cross-entropy of a softmax over all items of the catalogue.

    With the n items of the catalogue, that of row i among them,

        loss_i = log(Σ_{j=1..n} exp(s_ij)) - s_ii

    A step computes the vectors of all items: for catalogues of up to 50,000.
    The sum over the rows of a user is minus the logarithm of a multinomial
    likelihood of the user's items.

    References:
        Covington, Adams, Sargin. Deep Neural Networks for YouTube
        Recommendations. RecSys 2016, section 3.1, for the softmax over the
        items, which is trained there with sampled negatives. Liang, Krishnan,
        Hoffman, Jebara. Variational Autoencoders for Collaborative Filtering.
        WWW 2018, section 2.1, for the multinomial likelihood over all items.
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
        positives = ops.take(ops.reshape(scores, (-1,)), places, axis=0)
        totals = ops.logsumexp(scores, axis=-1)
        return ops.take(totals, queries, axis=0) - positives
