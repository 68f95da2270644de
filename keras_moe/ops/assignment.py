"""Experts choose rows, with a limit per row.

First softly, by a linear program; then each choice is made whole.
"""

from keras import ops

from keras_moe.ops.masked_softmax import FLOAT32_MIN
from keras_moe.ops.top_k import top_k_mask
from keras_moe.ops.top_k import top_rows_mask
from keras_moe.types import IntegerLike
from keras_moe.types import Tensor

# As published: the weight of the entropy, and the most iterations.
ENTROPY_WEIGHT = 1e-3
MAX_ITERATIONS = 100

# Far below any score, yet finite when divided by the entropy's weight.
EXCLUDED = -1e3

# Each of them halves the bracket: enough for float32.
BISECTIONS = 24

# A change of prices, in units of the entropy weight, too small to matter.
TOLERANCE = 1e-3


def capped_assignment(
    scores: Tensor, capacity: IntegerLike, max_per_row: int
) -> Tensor:
    """How much each expert chooses each row, with a cap for the rows.

    Maximises `<S, A> + λ H(A)`, where every column of `A` sums to `capacity`,
    no row to more than `max_per_row`, and `0 <= A <= 1`. Dykstra's projections
    alternate between the two sums. Here each of them respects `A <= 1` as well;
    a third projection for it would take thousands of rounds. All of it is done
    in the log domain, where the projections are prices: with one price per row
    and one per column, `A = min(1, exp(S/λ - price - price))`.

    No gradient passes.

    Args:
        scores: Float32 tensor `(N, E)`; the float32 minimum excludes an entry.
        capacity: Integer or integer tensor `>= 1`, at most the rows that are
            not excluded, and `E · capacity <= N · max_per_row`.
        max_per_row: Integer `>= 1`.

    Returns:
        Float32 tensor `(N, E)`. The columns' sums are exact, up to rounding.
        The rows' approach the cap; where the best rows of an expert score far
        above the next ones, a hundred iterations may not reach it.

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

    def row_prices(column_prices: Tensor) -> Tensor:
        rows = log_scores - column_prices
        return ops.maximum(_prices(rows, max_per_row, axis=1), 0.0)

    def step(
        iteration: Tensor, prices: Tensor, change: Tensor
    ) -> tuple[Tensor, ...]:
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


def integral_assignment(
    choice: Tensor, capacity: IntegerLike, max_per_row: int
) -> Tensor:
    """Rounds soft choices to whole ones, within the same caps.

    Every expert takes its `capacity` largest entries. Where a row is taken
    more than `max_per_row` times it keeps its largest and the others look
    further, until all are content (deferred acceptance). If an expert then
    lacks rows although a row has room, a third one is exchanged between two
    experts.

    Args:
        choice: Float32 tensor `(N, E)`, such as `capped_assignment` returns;
            the float32 minimum excludes an entry.
        capacity: Integer or integer tensor `>= 1`.
        max_per_row: Integer `>= 1`.

    Returns:
        Boolean tensor `(N, E)`: no row has more than `max_per_row` true
        entries, no column more than `capacity`, and fewer only where the caps
        leave no other choice that one exchange would reach.

    Example:
        >>> choice = np.array([[0.9, 0.8], [0.6, 0.1]], "float32")
        >>> integral = integral_assignment(choice, capacity=1, max_per_row=1)
        >>> keras.ops.convert_to_numpy(integral).tolist()
        [[True, False], [False, True]]
    """
    choice = ops.stop_gradient(ops.convert_to_tensor(choice))
    taken = _defer(choice, capacity, max_per_row)
    if choice.shape[0] == 0:  # JAX traces an exchange, even of nothing.
        return taken
    return _exchange(choice, taken, capacity, max_per_row)


def _prices(log_choices: Tensor, total: IntegerLike, axis: int) -> Tensor:
    """What to subtract so that `Σ min(1, exp(...))` is `total` on an axis."""
    padding = [[0, 0], [0, 0]]
    padding[axis] = [1, 0]  # So that an empty batch has a largest entry.
    padded = ops.pad(log_choices, padding, constant_values=EXCLUDED)
    length = ops.shape(padded)[axis]
    largest = ops.maximum(length - total, 0)
    # At the total-th largest entry the sum is at least `total`; `log(length)`
    # above it, at most.
    low = ops.expand_dims(  # (1, E) or (N, 1)
        ops.take(ops.sort(padded, axis=axis), largest, axis=axis), axis
    )
    high = low + ops.log(ops.cast(length, "float32"))
    total = ops.cast(total, "float32")

    def halve(
        _: Tensor, bracket: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        low, high = bracket
        middle = (low + high) / 2
        choices = ops.exp(ops.minimum(log_choices - middle, 0.0))
        above = ops.sum(choices, axis=axis, keepdims=True) > total
        return ops.where(above, middle, low), ops.where(above, high, middle)

    low, high = ops.fori_loop(0, BISECTIONS, halve, (low, high))
    return (low + high) / 2


def _defer(choice: Tensor, capacity: IntegerLike, max_per_row: int) -> Tensor:
    """Experts ask rows in their order; a row keeps the best who ask."""

    def asked(refused: Tensor) -> Tensor:
        left = ops.where(refused, FLOAT32_MIN, choice)
        return top_rows_mask(left, capacity)

    def refuse(refused: Tensor, taken: Tensor) -> tuple[Tensor, Tensor]:
        best = top_k_mask(ops.where(taken, choice, FLOAT32_MIN), max_per_row)
        refused = ops.logical_or(
            refused, ops.logical_and(taken, ops.logical_not(best))
        )
        return refused, asked(refused)

    nobody = ops.zeros_like(choice, dtype="bool")
    return ops.while_loop(
        lambda _, taken: ops.any(_counts(taken, 1) > max_per_row),
        refuse,
        (nobody, asked(nobody)),
    )[1]


def _exchange(
    choice: Tensor, taken: Tensor, capacity: IntegerLike, max_per_row: int
) -> Tensor:
    """Fills up the experts that are short of rows, by the best exchanges.

    Rows with room have all experts that are short already. So another row
    leaves one of its experts for the short one, and the expert that it leaves
    takes the row with room.
    """
    allowed = choice > FLOAT32_MIN

    def exchange(taken: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        short = ops.argmax(capacity - _counts(taken, 0)[0])
        room = max_per_row - _counts(taken, 1)[:, 0]
        roomy = ops.argmax(ops.where(ops.any(allowed, axis=1), room, 0))
        joins = ops.take(choice, short, axis=1)[:, None]  # (N, 1)
        takes = ops.take(choice, roomy, axis=0)[None, :]  # (1, E)
        free = ops.logical_and(allowed, ops.logical_not(taken))
        possible = (
            taken  # (N, E)
            & ops.take(free, short, axis=1)[:, None]  # (N, 1)
            & ops.take(free, roomy, axis=0)[None, :]  # (1, E)
        )
        gains = ops.where(possible, joins - choice + takes, FLOAT32_MIN)
        best = ops.argmax(gains)  # Of N E entries.
        row, left = best // choice.shape[1], best % choice.shape[1]
        here = _at(choice, row, left)
        there = _at(choice, row, short) | _at(choice, roomy, left)
        found = ops.any(possible) & ops.any(room > 0)
        changed = (taken & ops.logical_not(here)) | there
        return ops.where(found, changed, taken), found

    return ops.while_loop(
        lambda taken, found: found & ops.any(_counts(taken, 0) < capacity),
        exchange,
        (taken, ops.any(allowed)),
    )[0]


def _counts(taken: Tensor, axis: int) -> Tensor:
    return ops.sum(ops.cast(taken, "int32"), axis=axis, keepdims=True)


def _at(matrix: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """A mask of one entry, in the shape of the matrix."""
    rows = ops.arange(ops.shape(matrix)[0]) == ops.cast(row, "int32")
    columns = ops.arange(matrix.shape[1]) == ops.cast(column, "int32")
    return rows[:, None] & columns[None, :]
