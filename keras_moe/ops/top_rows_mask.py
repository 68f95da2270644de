from typing import Any

from keras import ops

from keras_moe.ops.masked_softmax import FLOAT32_MIN


def top_rows_mask(scores: Any, count: Any) -> Any:
    """Marks the `count` largest entries of every column.

    Ties go to the lower row.

    Args:
        scores: Float32 tensor `(N, n)`. The float32 minimum stands for an
            entry that must not be marked.
        count: Integer or integer tensor `>= 1`.

    Returns:
        Boolean tensor `(N, n)` with `count` true entries per column, or as many
        as may be marked.

    Example:
        >>> mask = top_rows_mask(np.array([[1.0], [3.0], [1.0]]), 2)
        >>> [bool(kept) for kept in mask[:, 0]]
        [True, True, False]
    """
    scores = ops.convert_to_tensor(scores)
    # One more row, so that there is a `count`-th even in an empty batch.
    ordered = ops.sort(
        ops.pad(scores, [[1, 0], [0, 0]], constant_values=FLOAT32_MIN), axis=0
    )
    num_rows = ops.shape(scores)[0]
    last = ops.maximum(num_rows + 1 - count, 0)
    threshold = ops.take(ordered, last, axis=0)[None, :]
    above = scores > threshold
    tied = ops.logical_and(scores == threshold, scores > FLOAT32_MIN)
    room = count - ops.sum(ops.cast(above, "int32"), axis=0, keepdims=True)
    first = ops.cumsum(ops.cast(tied, "int32"), axis=0) <= room
    return ops.logical_or(above, ops.logical_and(tied, first))
