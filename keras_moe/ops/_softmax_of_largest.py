import keras
from keras import ops

from keras_moe.ops._tracing import is_eager_on_torch
from keras_moe.ops._tracing import is_traced_for_xla
from keras_moe.ops.masked_softmax import masked_softmax
from keras_moe.ops.top_k import top_k_mask
from keras_moe.types import Tensor

if keras.backend.backend() == "torch":
    import torch


def softmax_of_largest(logits: Tensor, k: int) -> Tensor:
    """The softmax of each row's `k` largest logits; the others are exactly 0.

    It is `masked_softmax(logits, top_k_mask(logits, k))`. Where it is known
    which entries are the largest, and not only whether an entry is one, only
    these are touched: every operation of a masked softmax goes over all.

    Args:
        logits: Float tensor `(..., n)`.
        k: Integer in `[1, n]`. Ties go to the lower index.

    Returns:
        Tensor `(..., n)`. A row with a NaN is NaN throughout.

    Example:
        >>> weights = softmax_of_largest(np.log(np.array([1.0, 5.0, 3.0])), 2)
        >>> [round(float(weight), 3) for weight in weights]
        [0.0, 0.625, 0.375]
    """
    logits = ops.convert_to_tensor(logits)
    weights = None
    if keras.backend.backend() == "tensorflow" and not is_traced_for_xla():
        weights = _on_tensorflow(logits, k)
    elif is_eager_on_torch():
        weights = _on_torch(logits, k)
    if weights is None:
        weights = masked_softmax(logits, top_k_mask(logits, k))
    return weights


def _on_tensorflow(logits: Tensor, k: int) -> Tensor:
    import tensorflow as tf

    num_experts = logits.shape[-1]
    rows = tf.reshape(logits, (-1, num_experts))  # (N, n)
    values, indices = tf.math.top_k(rows, k)  # Ties in ascending order.
    # Infinity has no softmax. A sum is NaN where an entry is, and where there
    # is infinity of both signs.
    lost = tf.logical_or(  # (N, 1)
        tf.math.is_nan(tf.reduce_sum(rows, axis=1, keepdims=True)),
        tf.math.is_inf(values[:, :1]),
    )
    nothing = tf.where(lost, tf.cast(float("nan"), rows.dtype), 0.0)  # (N, 1)
    largest = tf.nn.softmax(tf.where(lost, 0.0, values)) + nothing
    unselected = tf.broadcast_to(nothing, tf.shape(rows))
    places = tf.range(tf.shape(rows)[0])[:, None] * num_experts + indices
    weights = tf.tensor_scatter_nd_update(  # (N n,)
        tf.reshape(unselected, (-1,)),
        tf.reshape(places, (-1, 1)),
        tf.reshape(largest, (-1,)),
    )
    return tf.ensure_shape(tf.reshape(weights, tf.shape(logits)), logits.shape)


def _on_torch(logits: "torch.Tensor", k: int) -> "torch.Tensor | None":
    """The same, or `None` in a batch with ties at the last place, or NaN.

    PyTorch promises no order of ties. Without any, as many entries as are
    wanted are as large as the last one of them. (Other devices would have to
    wait for this to be found out.)
    """
    if logits.device.type != "cpu":
        return None
    values, indices = torch.topk(logits, k)
    with torch.no_grad():
        num_kept = torch.count_nonzero(logits >= values[..., -1:])
        # PyTorch takes NaN as the largest.
        finite = torch.isfinite(values[..., :1]).all()
        if not (finite and num_kept == indices.numel()):
            return None
    largest = torch.softmax(values, dim=-1)
    return torch.scatter(torch.zeros_like(logits), -1, indices, largest)
