"""Experts choose rows, each row at most so often: a linear program.

Axis letters: N rows, E experts.
"""

from typing import Any

from keras import ops

# As published: the weight of the entropy, and the most iterations.
ENTROPY_WEIGHT = 1e-3
MAX_ITERATIONS = 100

# Far below any score, yet finite when divided by the entropy's weight.
EXCLUDED = -1e3

# A halving of the bracket each: enough for float32.
BISECTIONS = 24

# A change of the prices, in units of the entropy weight, that decides nothing.
TOLERANCE = 1e-3


def capped_assignment(scores: Any, capacity: Any, max_per_row: int) -> Any:
    """How much each expert chooses each row, with a cap for the rows.

    Maximises `<S, A> + λ H(A)`, where every column of `A` sums to `capacity`,
    no row to more than `max_per_row`, and `0 <= A <= 1`. Dykstra's projections
    alternate between the two sums. Here each respects `A <= 1` as it projects,
    which a third projection of its own would take thousands of rounds for. It
    happens in the log domain, where the projections are prices: with one
    price per row and one per column, `A = min(1, exp(S/λ - price - price))`.

    No gradient passes.

    Args:
        scores: Float32 tensor `(N, E)`; the float32 minimum excludes an entry.
        capacity: Integer or integer tensor `>= 1`, at most the rows that are
            not excluded, and `E · capacity <= N · max_per_row`.
        max_per_row: Integer `>= 1`.

    Returns:
        Float32 tensor `(N, E)`. The columns' sums are exact, up to rounding.
        The rows' come down to the cap, but where the best rows for an expert
        score far above the next ones, a hundred iterations end before.

    Example:
        >>> scores = np.array([[0.9, 0.8], [0.89, 0.1]], "float32")
        >>> choice = capped_assignment(scores, capacity=1, max_per_row=1)
        >>> keras.ops.convert_to_numpy(choice).round(1).tolist()
        [[0.0, 1.0], [1.0, 0.0]]

    References:
        Zhou et al., Mixture-of-Experts with Expert Choice Routing, NeurIPS
        2022, section 3.3.
        Dykstra, An iterative procedure for obtaining I-projections onto the
        intersection of convex sets, 1985.
    """
    scores = ops.stop_gradient(ops.convert_to_tensor(scores))
    log_scores = ops.maximum(scores, EXCLUDED) / ENTROPY_WEIGHT

    def row_prices(column_prices: Any) -> Any:
        rows = log_scores - column_prices
        return ops.maximum(_prices(rows, max_per_row, axis=1), 0.0)

    def step(iteration: Any, prices: Any, change: Any) -> tuple[Any, ...]:
        columns = _prices(log_scores - prices, capacity, axis=0)
        updated = row_prices(columns)
        change = ops.max(ops.abs(updated - prices), initial=0.0)
        return iteration + 1, updated, change

    _, prices, _ = ops.while_loop(
        lambda iteration, prices, change: change > TOLERANCE,
        step,
        (0, ops.zeros_like(log_scores[:, :1]), ops.cast(1.0, "float32")),
        maximum_iterations=MAX_ITERATIONS,
    )
    log_scores = log_scores - prices
    log_scores = log_scores - _prices(log_scores, capacity, axis=0)
    return ops.exp(ops.minimum(log_scores, 0.0))


def _prices(log_choices: Any, total: Any, axis: int) -> Any:
    """What to subtract so that `Σ min(1, exp(...))` is `total` on an axis."""
    padding = [[0, 0], [0, 0]]
    padding[axis] = [1, 0]  # So that an empty batch has a largest entry.
    padded = ops.pad(log_choices, padding, constant_values=EXCLUDED)
    length = ops.shape(padded)[axis]
    largest = ops.maximum(length - total, 0)
    # At the total-th largest entry the sum is at least `total`; `log(length)`
    # above it, at most.
    low = ops.expand_dims(
        ops.take(ops.sort(padded, axis=axis), largest, axis=axis), axis
    )
    high = low + ops.log(ops.cast(length, "float32"))
    total = ops.cast(total, "float32")

    def halve(_: Any, bracket: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = bracket
        middle = (low + high) / 2
        choices = ops.exp(ops.minimum(log_choices - middle, 0.0))
        above = ops.sum(choices, axis=axis, keepdims=True) > total
        return ops.where(above, middle, low), ops.where(above, high, middle)

    low, high = ops.fori_loop(0, BISECTIONS, halve, (low, high))
    return (low + high) / 2
