"""The largest entries of rows and of columns."""

import keras
from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.checks import check_count
from keras_moe.checks import check_integer
from keras_moe.distribution.devices import map_over_devices
from keras_moe.ops._tracing import is_traced_by_jax
from keras_moe.ops._tracing import is_traced_for_export
from keras_moe.ops._tracing import is_traced_for_xla
from keras_moe.ops._zero_but_nan import zero_but_nan
from keras_moe.ops.masked_softmax import FLOAT32_MIN
from keras_moe.types import IntegerLike
from keras_moe.types import Tensor

if keras.backend.backend() == "jax":
    import jax
elif keras.backend.backend() == "torch":
    import torch

# Up to how many of the largest XLA finds faster one by one.
MAX_PASSES = 4

INT32_MAX = 2**31 - 1


def top_k_mask(x: Tensor, k: int) -> Tensor:
    """Marks exactly the `k` largest entries of the last axis.

    Ties go to the lower index on every backend, which `keras.ops.top_k` does
    not promise.

    Args:
        x: Float tensor `(..., n)`.
        k: Integer in `[1, n]`.

    Returns:
        Boolean tensor `(..., n)` with `k` true entries along the last axis, or
        none where an entry is NaN: the others have no order then.

    Example:
        >>> mask = top_k_mask(np.array([1.0, 3.0, 1.0, 1.0]), k=2)
        >>> [bool(kept) for kept in mask]
        [True, True, False, False]
    """
    x = as_tensor("x", x, 1)
    check_integer("k", k, 1, x.shape[-1])
    # Each backend sorts NaN to another place.
    ordered = ops.logical_not(ops.any(ops.isnan(x), axis=-1, keepdims=True))
    return ops.logical_and(_largest(x, k), ordered)


def top_k_indices(x: Tensor, k: int) -> Tensor:
    """The places of exactly the `k` largest entries of the last axis.

    They are those that `top_k_mask` marks on every backend, in any order.

    Args:
        x: Float tensor `(..., n)`.
        k: Integer in `[1, n]`. Ties go to the lower index.

    Returns:
        Int32 tensor `(..., k)`. Of a row with NaN, any `k` places.

    Example:
        >>> indices = top_k_indices(np.array([1.0, 3.0, 1.0, 1.0]), k=2)
        >>> sorted(int(index) for index in indices)
        [0, 1]
    """
    x = as_tensor("x", x, 1)
    check_integer("k", k, 1, x.shape[-1])
    # JAX has -0.0 below 0.0.
    x = ops.where(x == 0, ops.zeros_like(x), x)
    values, indices = _top_k(x, k)
    if _leaves_ties_open(x, values):
        # No two ranks are equal, so that all backends choose the same.
        ranks = ops.arange(x.shape[-1], 0, -1, dtype="int32")
        _, indices = ops.top_k(ops.where(top_k_mask(x, k), ranks, 0), k)
    return ops.cast(indices, "int32")


def _leaves_ties_open(x: Tensor, largest: Tensor) -> bool:
    """Returns whether `top_k` had a choice between equal entries."""
    if keras.backend.backend() == "torch":
        if torch.compiler.is_compiling() or torch.jit.is_tracing():
            return True
        k = largest.shape[-1]
        in_reach = torch.sum(x >= largest[..., -1:], dim=-1)
        return bool(torch.any(in_reach > k))
    return keras.backend.backend() == "tensorflow" and is_traced_for_xla()


def top_k_softmax(logits: Tensor, k: int) -> Tensor:
    """The `k` largest probabilities of a softmax; the others are exactly 0.

    They keep their values, so that they sum to less than 1: unlike those of
    a softmax over the `k` largest logits, they have a gradient for `k = 1`.

    Args:
        logits: Float tensor `(..., n)`.
        k: Integer in `[1, n]`. Ties go to the lower index.

    Returns:
        Tensor `(..., n)` with at most `k` weights per row. A row of logits with
        a NaN is NaN throughout.

    Example:
        >>> logits = np.log(np.array([1.0, 5.0, 2.0]))
        >>> [round(float(weight), 3) for weight in top_k_softmax(logits, k=2)]
        [0.0, 0.625, 0.25]

    References:
        Riquelme et al., Scaling Vision with Sparse Mixture of Experts,
        NeurIPS 2021, section 2.2.
    """
    logits = as_tensor("logits", logits, 1)
    probabilities = ops.softmax(logits, axis=-1)
    return ops.where(
        top_k_mask(logits, k), probabilities, zero_but_nan(probabilities)
    )


def keep_largest(weights: Tensor, k: int) -> Tensor:
    """Keeps each row's `k` largest weights, rescaled to the same sum.

    Args:
        weights: Float tensor `(..., n)`, not negative.
        k: Integer in `[1, n]`. Ties go to the lower index.

    Returns:
        Tensor `(..., n)` with at most `k` weights per row. A row with a NaN is
        NaN throughout.

    Example:
        >>> kept = keep_largest(np.array([0.5, 0.125, 0.25, 0.125]), k=2)
        >>> [round(float(weight), 4) for weight in kept]
        [0.6667, 0.0, 0.3333, 0.0]
    """
    weights = as_tensor("weights", weights, 1)
    kept = ops.where(top_k_mask(weights, k), weights, 0.0)
    total = ops.sum(weights, axis=-1, keepdims=True)
    kept_total = ops.sum(kept, axis=-1, keepdims=True)
    # A row without any weight stays at zero.
    scale = total / ops.where(kept_total > 0, kept_total, 1.0)
    return kept * scale


def top_rows_mask(scores: Tensor, count: IntegerLike) -> Tensor:
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
    scores = as_tensor("scores", scores, 2)
    check_count("count", count, 1)
    # One more row, so that even an empty batch has a `count`-th.
    ordered = ops.sort(
        ops.pad(scores, [[1, 0], [0, 0]], constant_values=FLOAT32_MIN), axis=0
    )
    num_rows = ops.shape(scores)[0]
    last = ops.maximum(num_rows + 1 - count, 0)
    threshold = ops.take(ordered, last, axis=0)[None, :]  # (1, n)
    above = scores > threshold
    tied = ops.logical_and(scores == threshold, scores > FLOAT32_MIN)
    room = count - ops.sum(ops.cast(above, "int32"), axis=0, keepdims=True)
    first = ops.cumsum(ops.cast(tied, "int32"), axis=0) <= room
    return ops.logical_or(above, ops.logical_and(tied, first))


def kth_largest(x: Tensor, k: int) -> Tensor:
    """The `k`-th largest entry of the last axis.

    Args:
        x: Float tensor `(..., n)`, no entry of which is NaN.
        k: Integer in `[1, n]`.

    Returns:
        Tensor `(..., 1)`.

    Example:
        >>> float(kth_largest(np.array([1.0, 3.0, 2.0]), k=2)[0])
        2.0
    """

    def of_rows(x: Tensor) -> Tensor:
        # The minimum, not the last entry: of a slice XLA makes a full sort,
        # and the order is left to the backend. The initial value is for
        # batches without rows.
        largest, _ = _top_k(x, k)
        return ops.min(largest, axis=-1, keepdims=True, initial=float("inf"))

    if len(x.shape) == 1 or not is_traced_by_jax(x):
        return of_rows(x)
    # XLA's partitioner would gather the rows of all devices on each.
    entries, _ = map_over_devices(lambda rows, *_: (of_rows(*rows), ()), [x])
    return entries


def _top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`keras.ops.top_k`, of which TensorFlow cannot read what JAX exports."""
    if keras.backend.backend() != "jax" or not is_traced_for_export(x):
        values, indices = ops.top_k(x, k)
        return values, indices
    indices = ops.argsort(-x, axis=-1)[..., :k]
    return ops.take_along_axis(x, indices, axis=-1), indices


def _largest(x: Tensor, k: int) -> Tensor:
    """The mask of the `k` largest, where no entry is NaN."""
    backend = keras.backend.backend()
    if backend == "tensorflow" and not is_traced_for_xla():
        return _by_last_index(x, k)
    if backend == "jax" and k <= MAX_PASSES and x.dtype.itemsize <= 4:
        return _by_passes(x, k)
    if backend == "torch" and k == 1:
        # A quarter to half of the time of what follows. PyTorch promises the
        # first of equal entries.
        places = ops.arange(x.shape[-1], dtype="int32")
        mask: Tensor = places == ops.argmax(x, axis=-1, keepdims=True)
        return mask
    threshold = kth_largest(x, k)
    above = x > threshold
    tied = x == threshold
    room = k - ops.sum(ops.cast(above, "int32"), axis=-1, keepdims=True)
    first = ops.cumsum(ops.cast(tied, "int32"), axis=-1) <= room
    return ops.logical_or(above, ops.logical_and(tied, first))


def _by_passes(x: Tensor, k: int) -> Tensor:
    """The same, on JAX, one pass over all entries for each of the largest.

    For few of them, a tenth to a half of the time that finding a threshold
    and counting the ties takes XLA.
    """
    bits = jax.lax.bitcast_convert_type(
        # Neither -0.0 below 0.0, nor two numbers of half precision apart.
        ops.where(x == 0, 0.0, ops.cast(x, "float32")),
        "int32",
    )
    # As integers they have the same order, and something is below them all.
    order = ops.where(bits < 0, bits ^ INT32_MAX, bits)
    places = ops.arange(x.shape[-1], dtype="int32")
    largest = ops.zeros(ops.shape(x), "bool")
    for _ in range(k):
        rest = ops.where(largest, -INT32_MAX - 1, order)
        place = jax.lax.argmax(rest, len(x.shape) - 1, "int32")
        largest = ops.logical_or(largest, places == place[..., None])
    return largest


def _by_last_index(x: Tensor, k: int) -> Tensor:
    """The same, where `top_k` promises that ties are in ascending order.

    The last one of the largest tells which ties are in; to count them by a
    cumulative sum takes TensorFlow as long as to find the largest.
    """
    values, indices = ops.top_k(x, k)
    threshold, last = values[..., -1:], indices[..., -1:]
    first = ops.arange(x.shape[-1], dtype=indices.dtype) <= last
    return ops.logical_or(x > threshold, ops.logical_and(x == threshold, first))
