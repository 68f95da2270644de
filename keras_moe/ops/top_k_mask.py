from typing import Any

import keras
from keras import ops

from keras_moe.ops.tracing import is_traced_for_xla


def top_k_mask(x: Any, k: int) -> Any:
    """Marks exactly the `k` largest entries of the last axis.

    Ties go to the lower index on every backend, which `keras.ops.top_k` does
    not promise.

    Args:
        x: Float tensor `(..., n)`.
        k: Integer in `[1, n]`.

    Returns:
        Boolean tensor `(..., n)` with `k` true entries along the last axis.

    Example:
        >>> mask = top_k_mask(np.array([1.0, 3.0, 1.0, 1.0]), k=2)
        >>> [bool(kept) for kept in mask]
        [True, True, False, False]
    """
    x = ops.convert_to_tensor(x)
    if keras.backend.backend() == "tensorflow" and not is_traced_for_xla():
        return _by_last_index(x, k)
    # The minimum, not the last entry: of a slice XLA makes a full sort. The
    # initial value is for batches without rows.
    threshold = ops.min(
        ops.top_k(x, k)[0], axis=-1, keepdims=True, initial=float("inf")
    )
    above = x > threshold
    tied = x == threshold
    room = k - ops.sum(ops.cast(above, "int32"), axis=-1, keepdims=True)
    first = ops.cumsum(ops.cast(tied, "int32"), axis=-1) <= room
    return ops.logical_or(above, ops.logical_and(tied, first))


def _by_last_index(x: Any, k: int) -> Any:
    """The same, where `top_k` promises that ties are in ascending order.

    The last one of the largest tells which ties are in; to count them by a
    cumulative sum takes TensorFlow as long as to find the largest.
    """
    values, indices = ops.top_k(x, k)
    threshold, last = values[..., -1:], indices[..., -1:]
    first = ops.arange(x.shape[-1], dtype=indices.dtype) <= last
    return ops.logical_or(x > threshold, ops.logical_and(x == threshold, first))
