"""Rounds a capped assignment, keeping its sums."""

from typing import Any

from keras import ops

from keras_moe.ops.masked_softmax import FLOAT32_MIN
from keras_moe.ops.top_k_mask import top_k_mask
from keras_moe.ops.top_rows_mask import top_rows_mask


def integral_assignment(choice: Any, capacity: Any, max_per_row: int) -> Any:
    """Turns soft choices into yes and no, within the same caps.

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


def _defer(choice: Any, capacity: Any, max_per_row: int) -> Any:
    """Experts ask rows in their order; a row keeps the best who ask."""

    def asked(refused: Any) -> Any:
        left = ops.where(refused, FLOAT32_MIN, choice)
        return top_rows_mask(left, capacity)

    def refuse(refused: Any, taken: Any) -> tuple[Any, Any]:
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


def _exchange(choice: Any, taken: Any, capacity: Any, max_per_row: int) -> Any:
    """Fills up the experts that are short of rows, by the best exchanges.

    Rows with room have all experts that are short already. So another row
    leaves one of its experts for the short one, and the expert that it leaves
    takes the row with room.
    """
    allowed = choice > FLOAT32_MIN

    def exchange(taken: Any, _: Any) -> tuple[Any, Any]:
        short = ops.argmax(capacity - _counts(taken, 0)[0])
        room = max_per_row - _counts(taken, 1)[:, 0]
        roomy = ops.argmax(ops.where(ops.any(allowed, axis=1), room, 0))
        joins = ops.take(choice, short, axis=1)[:, None]
        takes = ops.take(choice, roomy, axis=0)[None, :]
        free = ops.logical_and(allowed, ops.logical_not(taken))
        possible = (
            taken
            & ops.take(free, short, axis=1)[:, None]
            & ops.take(free, roomy, axis=0)[None, :]
        )
        gains = ops.where(possible, joins - choice + takes, FLOAT32_MIN)
        best = ops.argmax(gains)
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


def _counts(taken: Any, axis: int) -> Any:
    return ops.sum(ops.cast(taken, "int32"), axis=axis, keepdims=True)


def _at(matrix: Any, row: Any, column: Any) -> Any:
    """A mask of one entry, in the shape of the matrix."""
    rows = ops.arange(ops.shape(matrix)[0]) == ops.cast(row, "int32")
    columns = ops.arange(matrix.shape[1]) == ops.cast(column, "int32")
    return rows[:, None] & columns[None, :]
