import numpy as np
from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.ops._largest import largest
from keras_moe.types import Tensor

# Stands for -inf, which checkers of numerics would stop at.
FLOAT32_MIN = float(np.finfo("float32").min)


def masked_softmax(
    logits: Tensor, mask: Tensor, axis: int | tuple[int, ...] = -1
) -> Tensor:
    """Softmax over the entries that a mask keeps; the others are exactly 0.

    No gradient reaches the logits that are left out.

    Args:
        logits: Float tensor of any shape.
        mask: Boolean tensor of the same shape, true where an entry is kept.
            Each softmax needs at least one.
        axis: Integer or tuple of integers, the axes of one softmax. Defaults
            to the last axis.

    Returns:
        Tensor of the shape of `logits`.

    Example:
        >>> logits, mask = np.zeros(4), np.array([True, False, True, False])
        >>> [float(weight) for weight in masked_softmax(logits, mask)]
        [0.5, 0.0, 0.5, 0.0]
    """
    logits, mask = as_tensor("logits", logits), as_tensor("mask", mask)
    kept = ops.where(mask, logits, FLOAT32_MIN)
    # Without an initial value Keras refuses empty batches.
    highest = largest(kept, FLOAT32_MIN, axis, keepdims=True)
    # CPUs take ten times as long for an exponential that underflows.
    exponents = ops.subtract(logits, ops.stop_gradient(highest))
    weights = ops.exp(ops.where(mask, exponents, 0.0))
    weights = ops.where(mask, weights, 0.0)
    return weights / ops.sum(weights, axis=axis, keepdims=True)
