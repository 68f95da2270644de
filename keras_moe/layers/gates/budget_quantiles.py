import keras
from keras import ops

from keras_moe.types import Tensor

# A batch's quantiles are of about this many weights, and of at least so many
# rows. Sorting all weights of a batch took up to 20 times as long as the rest
# of a gate; the running mean of thresholds evens the noise of a sample out.
SAMPLED_WEIGHTS = 8192
LEAST_ROWS = 64


def sample_rows(rows: Tensor, seed: keras.random.SeedGenerator) -> Tensor:
    """Draws about as many rows as have `SAMPLED_WEIGHTS` entries.

    The rows are parted into spans of equal length, and one row of each span is
    drawn: a fixed stride could meet the same position of every sequence.

    Args:
        rows: Tensor `(N, n)`.
        seed: Moves on where a row is left out.

    Returns:
        Tensor `(min(N, m), n)` with `m = max(64, 8192 / n)`: all rows, in
        their order, if there are no more than `m`.
    """
    most = max(LEAST_ROWS, SAMPLED_WEIGHTS // rows.shape[1])
    num_rows = rows.shape[0]
    if num_rows is None:  # Of a graph: any number.
        num_rows = ops.shape(rows)[0]
        taken = ops.minimum(num_rows, most)
    elif num_rows <= most:
        return rows
    else:
        taken = most
    parts = ops.arange(taken + 1)
    # `parts * num_rows // taken`, which may be above the largest int32.
    divisor = ops.maximum(taken, 1)
    rest = parts * (num_rows % divisor) // divisor
    spans = parts * (num_rows // divisor) + rest
    begin, length = spans[:-1], spans[1:] - spans[:-1]
    drawn = keras.random.uniform((most,), seed=seed)[:taken]
    place = ops.cast(drawn * ops.cast(length, "float32"), begin.dtype)
    # A product of floats may be rounded up to the length.
    place = ops.minimum(place, length - 1)
    return ops.take(rows, begin + place, axis=0)


def budget_quantiles(
    shares: Tensor, num_rows: Tensor, size: int, steps: int
) -> Tensor:
    """The thresholds of budgets 1, 1 + 1 / steps, ...: `(size,)`.

    With that of budget `b`, `(b - 1) num_rows` entries of `shares` are kept.

    Args:
        shares: Float32 `(N, n)`, negative where an entry does not count.
        num_rows: Scalar, the rows that count.
        size: How many thresholds.
        steps: How many for each expert.
    """
    ordered = ops.sort(ops.reshape(shares, (-1,)))  # (N n,)
    # One more, so that an empty batch has an entry.
    ordered = ops.pad(ordered, [[1, 0]], constant_values=-1.0)
    extra = ops.arange(size, dtype="float32") / steps  # b - 1
    count = ops.cast(ops.round(extra * num_rows), "int32")
    place = ops.shape(ordered)[0] - ops.maximum(count, 1)
    return ops.take(ordered, place, axis=0)
