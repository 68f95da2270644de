from keras import ops
from keras_rs.layers import SamplingProbabilityCorrection

from keras_moe.types import Tensor

_NO_HIT = -1e30
_LEAST_PROBABILITY = 1e-30  # Keras RS's default cuts what is below 1e-6.


def in_batch_softmax(
    queries: Tensor, items: Tensor, numbers: Tensor, probabilities: Tensor
) -> Tensor:
    """Returns the sampled softmax loss of each row of a batch.

    The items of the other rows are what an item is told apart from. They are
    there as often as they occur in the data, which the logits are corrected
    for: with q_j the share of rows with item j,

        s_ij = <u_i, v_j> - log q_j
        loss_i = log(Σ_j exp(s_ij)) - s_ii

    over all rows j of the batch but those that have the item of row i as well
    and are not row i: they would be told apart from themselves.

    `keras_rs.layers.RemoveAccidentalHits` is not used: up to version 0.4.0 it
    adds 1e-40 to such logits, the smallest positive float32 by 100, where the
    most negative one is meant, and so leaves all of them where they are.

    Args:
        queries: Tensor `(B, D)`, the vectors u.
        items: Tensor `(B, D)`, the vectors v.
        numbers: Integer tensor `(B,)`, which item each row has.
        probabilities: Tensor `(B,)`, the share q of that item in the data.

    Returns:
        Float32 tensor `(B,)`.

    References:
        Yi et al., Sampling-Bias-Corrected Neural Modeling for Large Corpus
        Item Recommendations, RecSys 2019, section 3, equations 3 to 5.
    """
    queries, items = ops.cast(queries, "float32"), ops.cast(items, "float32")
    logits = ops.matmul(queries, ops.transpose(items))  # (B, B)
    correct = SamplingProbabilityCorrection(_LEAST_PROBABILITY, dtype="float32")
    logits = correct(logits, ops.broadcast_to(probabilities, ops.shape(logits)))
    rows = ops.arange(ops.shape(logits)[0])
    same_row = rows[:, None] == rows[None, :]
    same_item = numbers[:, None] == numbers[None, :]
    hits = ops.logical_and(same_item, ops.logical_not(same_row))
    logits = ops.where(hits, _NO_HIT, logits)
    own = ops.sum(ops.where(same_row, logits, 0.0), axis=-1)  # (B,)
    return ops.logsumexp(logits, axis=-1) - own
