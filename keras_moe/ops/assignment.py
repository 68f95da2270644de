"""Experts choose rows, with a limit per row.

First softly, by a linear program; then each choice is made whole.
"""

import numpy as np
from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.checks import check_count
from keras_moe.checks import check_integer
from keras_moe.ops._largest import largest
from keras_moe.ops.masked_softmax import FLOAT32_MIN
from keras_moe.types import IntegerLike
from keras_moe.types import Tensor

# As published: the weight of the entropy, and the most iterations.
ENTROPY_WEIGHT = 1e-3
MAX_ITERATIONS = 100

# Far below any score, yet finite when divided by the entropy's weight.
EXCLUDED = -1e3

# A change of prices, in units of the entropy weight, too small to matter.
TOLERANCE = 1e-3


def capped_assignment(
    scores: Tensor, capacity: IntegerLike, max_per_row: int
) -> Tensor:
    """Computes the share of each row in each expert, with a cap for the rows.

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
    scores = ops.stop_gradient(as_tensor("scores", scores, 2))
    check_count("capacity", capacity, 1)
    check_integer("max_per_row", max_per_row, 1, scores.shape[1])
    log_scores = ops.maximum(scores, EXCLUDED) / ENTROPY_WEIGHT

    def prices_of_rows(columns: Tensor) -> Tensor:
        prices = _prices(log_scores - columns, max_per_row, axis=1)
        return ops.maximum(prices, 0.0)

    def step(rows: Tensor, columns: Tensor, _: Tensor) -> tuple[Tensor, ...]:
        # The higher the rows' prices, the lower the columns', and the other
        # way round: from zero on, rows' only rise and columns' only fall.
        columns = _lowered(log_scores - rows, capacity, columns)
        updated = prices_of_rows(columns)
        change = largest(ops.abs(updated - rows), initial=0.0)
        return updated, columns, change

    columns = _prices(log_scores, capacity, axis=0)
    rows, _, _ = ops.while_loop(
        lambda rows, columns, change: change > TOLERANCE,
        step,
        (prices_of_rows(columns), columns, ops.cast(1.0, "float32")),
        maximum_iterations=MAX_ITERATIONS - 1,
    )
    log_scores = log_scores - rows
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
    choice = ops.stop_gradient(as_tensor("choice", choice, 2))
    check_count("capacity", capacity, 1)
    check_integer("max_per_row", max_per_row, 1, choice.shape[1])
    taken = _defer(choice, capacity, max_per_row)
    if choice.shape[0] == 0:  # JAX traces an exchange, even of nothing.
        return taken
    return _exchange(choice, taken, capacity, max_per_row)


def _prices(log_choices: Tensor, total: IntegerLike, axis: int) -> Tensor:
    """Finds the offset with which `Σ min(1, exp(...))` is `total` on an axis.

    If the `m` largest entries become 1, it is `log(Σ exp(others) / (total -
    m))`. To take another `m` is to count entries as more than 1, which needs a
    higher price: the least one is right.
    """
    padding = [[0, 0], [0, 0]]
    padding[axis] = [0, 1]  # So that an empty batch has a largest entry.
    padded = ops.pad(log_choices, padding, constant_values=FLOAT32_MIN)
    length = ops.shape(padded)[axis]
    ordered = ops.sort(padded, axis=axis)
    # The price is at least the total-th largest entry, and not log(length)
    # above it. Whatever is higher is 1, and is cut off before `exp` overflows.
    total_th = ops.maximum(length - total, 0)
    low = ops.expand_dims(ops.take(ordered, total_th, axis=axis), axis)
    highest = ops.log(ops.cast(length, "float32"))
    choices = ops.exp(ops.minimum(ordered - low, highest))
    sums = ops.cumsum(choices, axis=axis)  # Of an entry and all below it.
    num_ones = ops.expand_dims(length - 1 - ops.arange(length), 1 - axis)
    left = total - num_ones
    share = sums / ops.cast(ops.maximum(left, 1), "float32")
    shares = ops.where(left > 0, share, np.inf)
    least = ops.min(shares, axis=axis, keepdims=True, initial=np.inf)
    return low + ops.log(least)


def _lowered(log_choices: Tensor, total: IntegerLike, prices: Tensor) -> Tensor:
    """The `_prices` of columns, from prices `(1, E)` that are not below them.

    Newton's method on `log(Σ exp(others))`, which never goes too far: in a
    few steps, each much cheaper than to sort the columns.
    """

    def lower(prices: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        is_one = log_choices >= prices
        log_shares = ops.where(is_one, FLOAT32_MIN, log_choices - prices)
        total_share = ops.sum(ops.exp(log_shares), axis=0, keepdims=True)
        left = ops.cast(total - _counts(is_one, 0), "float32")
        is_open = ops.logical_and(left > 0, total_share > 0)
        ratio = ops.where(is_open, total_share / ops.maximum(left, 1.0), 1.0)
        change = ops.minimum(ops.log(ratio), 0.0)
        return prices + change, ops.min(change)

    return ops.while_loop(
        lambda _, change: change < -TOLERANCE,
        lower,
        (prices, ops.cast(-1.0, "float32")),
    )[0]


def _defer(choice: Tensor, capacity: IntegerLike, max_per_row: int) -> Tensor:
    """Experts ask rows in their order; a row keeps the best who ask.

    Who asks first makes no difference in the end. So a row refuses but one
    expert a round, and an expert asks as many more as have refused it.
    """
    order, preference = _ranks(choice, 0), _ranks(choice, 1)

    def ask(
        refused: Tensor, last: Tensor, _: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        asking = order <= last  # In the expert's order, the rows up to here.
        taken = ops.logical_and(asking, ops.logical_not(refused))
        worst = ops.max(ops.where(taken, preference, -1), axis=1, keepdims=True)
        refuses = (
            taken & (preference == worst) & (_counts(taken, 1) > max_per_row)
        )
        refused = ops.logical_or(refused, refuses)
        further = capacity - 1 + _counts(ops.logical_and(asking, refused), 0)
        return refused, further, ops.any(refuses) | ops.any(further > last)

    refused = ops.logical_not(choice > FLOAT32_MIN)
    last = ops.zeros((1, choice.shape[1]), "int32")
    last = last + ops.cast(capacity - 1, "int32")
    refused, last, _ = ops.while_loop(
        lambda refused, last, changed: changed,
        ask,
        (refused, last, ops.any(ops.logical_not(refused))),
    )
    return ops.logical_and(order <= last, ops.logical_not(refused))


def _ranks(x: Tensor, axis: int) -> Tensor:
    """The place of each entry among those of its axis, the largest first."""
    # 0.0 - x, as JAX has -0.0 below 0.0.
    return ops.argsort(ops.argsort(0.0 - x, axis=axis), axis=axis)


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
        is_possible = ops.any(possible) & ops.any(room > 0)
        changed = (taken & ops.logical_not(here)) | there
        return ops.where(is_possible, changed, taken), is_possible

    return ops.while_loop(
        lambda taken, is_possible: (
            is_possible & ops.any(_counts(taken, 0) < capacity)
        ),
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
