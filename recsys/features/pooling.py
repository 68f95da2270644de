"""One vector for a list of them: (batch, length, dim) to (batch, dim)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_moe.types import Tensor


def _sum(rows: "Tensor", mask: "Tensor") -> "Tensor":
    from keras import ops

    return ops.sum(ops.where(mask[..., None], rows, 0.0), axis=1)


def _mean(rows: "Tensor", mask: "Tensor") -> "Tensor":
    from keras import ops

    count = ops.sum(ops.cast(mask, rows.dtype), axis=1, keepdims=True)
    return _sum(rows, mask) / ops.maximum(count, 1.0)


def _max(rows: "Tensor", mask: "Tensor") -> "Tensor":
    from keras import ops

    masked = ops.where(mask[..., None], -rows, float("inf"))
    # Not `max`: on PyTorch, Keras makes its `initial` on the processor.
    largest = -ops.min(masked, axis=1, initial=float("inf"))
    nothing = ops.zeros_like(rows[:, 0])
    return ops.where(ops.any(mask, axis=1, keepdims=True), largest, nothing)


def _weighted_sum(rows: "Tensor", weights: "Tensor") -> "Tensor":
    from keras import ops

    weights = ops.cast(weights, rows.dtype)
    return ops.sum(weights * rows, axis=1)


def _weighted_mean(rows: "Tensor", weights: "Tensor") -> "Tensor":
    from keras import ops

    total = ops.sum(weights, axis=1, keepdims=True)
    shares = ops.where(total > 0, weights / ops.where(total > 0, total, 1.0), 0)
    return _weighted_sum(rows, shares)


# Each takes rows (batch, length, dim) and a mask (batch, length) of those that
# count. The vector of an empty list is all zeros.
POOLINGS: "dict[str, Callable[[Tensor, Tensor], Tensor]]" = {
    "max": _max,
    "mean": _mean,
    "sum": _sum,
}

# Each takes rows (batch, length, dim) and their weights (batch, length, 1), for
# a mean at least 0. Where all weights are 0, the vector is all zeros.
WEIGHTED_POOLINGS: "dict[str, Callable[[Tensor, Tensor], Tensor]]" = {
    "mean": _weighted_mean,
    "sum": _weighted_sum,
}
