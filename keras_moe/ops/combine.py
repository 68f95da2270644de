from collections.abc import Callable

from keras import ops

from keras_moe.ops._rows import gather
from keras_moe.ops._rows import segment_sum
from keras_moe.ops._sparse_matmul import sparse_matmul
from keras_moe.ops.routing_plan import RoutingPlan
from keras_moe.ops.routing_plan import routing_plan
from keras_moe.types import IntegerLike
from keras_moe.types import Tensor


def combine(
    outputs: Tensor,
    weights: Tensor,
    plan: RoutingPlan,
    max_pairs: IntegerLike | None = None,
) -> list[Tensor]:
    """Adds up each row's expert outputs, weighted, for every task.

    Args:
        outputs: Tensor `(S, H)`, the experts' outputs in their slots, finite
            in those without a pair.
        weights: Float32 `(N, T, E)`, zero where a task does not use an
            expert.
        plan: The plan that `outputs` was computed by, of the pairs (row,
            expert) that any task gives weight to.
        max_pairs: Integer, at least the number of weights that are not zero,
            for several tasks under XLA. Defaults to `None`: as many as there
            are.

    Returns:
        A float32 tensor `(N, H)` for each of the `T` tasks.
    """
    _, num_tasks, num_experts = weights.shape
    outputs = ops.cast(outputs, "float32")
    # Each (row, task) becomes a row of its own, for which only its own pairs
    # are added up: going over all slots for every task would touch up to T
    # times as many.
    weights = ops.reshape(weights, (-1, num_experts))  # (N T, E)
    num_rows = ops.shape(weights)[0]
    pairs, slots = plan, None
    if num_tasks > 1:
        # Enough, as it is the caller's count of these weights.
        pairs = routing_plan(weights != 0, max_pairs)
        slots = _slots(pairs, num_tasks, ops.shape(outputs)[0])  # (P,)
    pair_weights = _pair_weights(weights, pairs)  # (P,)
    by_row = pairs.by_row
    if by_row is None:
        own = outputs if slots is None else gather(outputs, slots)  # (P, H)
        # In slots without a pair may stand NaN, which no weight of 0 hides.
        used = (pairs.experts < num_experts)[:, None]
        own = ops.where(used, own, 0.0)
        combined = segment_sum(
            own * pair_weights[:, None], pairs.rows, num_rows
        )
    else:
        combined = _add_up(
            outputs, slots, pair_weights, pairs.rows, by_row, num_rows
        )
    combined = ops.reshape(  # (N T, H) to (N, T, H)
        combined, (-1, num_tasks, outputs.shape[1])
    )
    return ops.unstack(combined, num=num_tasks, axis=1)  # T times (N, H)


def _slots(
    pairs: RoutingPlan, num_tasks: int, num_slots: IntegerLike
) -> Tensor:
    """The slot that holds the output of each of the tasks' pairs.

    Both the tasks' pairs and the slots are in the order of experts and rows:
    the next slot begins where either changes.
    """
    rows = pairs.rows // num_tasks  # (P,), from N T rows to N.
    changes = ops.logical_or(  # (P - 1,)
        rows[1:] != rows[:-1], pairs.experts[1:] != pairs.experts[:-1]
    )
    slots = ops.pad(ops.cumsum(ops.cast(changes, "int32")), [[1, 0]])  # (P,)
    # Those that hold no pair come last.
    return ops.minimum(slots[: ops.shape(rows)[0]], num_slots - 1)


def _pair_weights(weights: Tensor, pairs: RoutingPlan) -> Tensor:
    """The weight of each pair, 0 for those that are none."""
    num_experts = weights.shape[1]
    column = ops.minimum(pairs.experts, num_experts - 1)
    place = pairs.rows * num_experts + column  # (P,), of N T E.
    pair_weights = gather(ops.reshape(weights, (-1,)), place)  # (P,)
    return ops.where(pairs.experts < num_experts, pair_weights, 0.0)


def _add_up(
    outputs: Tensor,
    slots: Tensor | None,
    weights: Tensor,
    rows: Tensor,
    by_row: Tensor,
    num_rows: IntegerLike,
) -> Tensor:
    """Adds up the outputs of each row's pairs in the order of the rows.

    Args:
        outputs: Tensor `(S, H)`.
        slots: Int32 `(P,)`, the slot of each pair; `None`: its own.
        weights: Float32 `(P,)`.
        rows: Int32 `(P,)`, the row of each pair.
        by_row: Int32 `(P,)`, the pairs in the order of their rows.
        num_rows: Integer `N`, the rows to add up for.

    Returns:
        Tensor `(N, H)`.
    """

    def added(
        outputs: Tensor, weights: Tensor
    ) -> tuple[Tensor, Callable[..., tuple[Tensor, Tensor]]]:
        def gradient(
            *args: Tensor, upstream: Tensor | None = None
        ) -> tuple[Tensor, Tensor]:
            upstream_grad = args[0] if upstream is None else upstream
            pair_grads = gather(upstream_grad, rows)  # (N, H) to (P, H)
            if slots is None:
                of_weights = ops.sum(pair_grads * outputs, axis=1)  # (P,)
                return pair_grads * weights[:, None], of_weights
            own = gather(outputs, slots)  # (S, H) to (P, H)
            of_weights = ops.sum(pair_grads * own, axis=1)  # (P,)
            of_outputs = sparse_matmul(  # (S, H)
                slots, rows, weights, upstream_grad, ops.shape(outputs)[0]
            )
            return of_outputs, of_weights

        # (P,) each, now in the order of the rows.
        columns = by_row if slots is None else gather(slots, by_row)
        sorted_rows = gather(rows, by_row)
        values = gather(weights, by_row)
        sums = sparse_matmul(sorted_rows, columns, values, outputs, num_rows)
        return sums, gradient

    return ops.custom_gradient(added)(outputs, weights)
