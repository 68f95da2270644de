from typing import Any

from keras import ops

from keras_moe.ops._rows import gather
from keras_moe.ops._rows import segment_sum
from keras_moe.ops._sparse_matmul import sparse_matmul
from keras_moe.ops.routing_plan import RoutingPlan
from keras_moe.ops.routing_plan import routing_plan


def combine(
    outputs: Any, weights: Any, plan: RoutingPlan, max_pairs: Any = None
) -> list[Any]:
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
    # What a task wants of a row is a row of its own, (N T, E), and what is
    # added up are its own pairs: to go over all slots for every task would
    # touch up to T times as many.
    weights = ops.reshape(weights, (-1, num_experts))
    pairs, slots = plan, None
    if num_tasks > 1:
        pairs = routing_plan(weights != 0, max_pairs)
        slots = _slots(pairs, num_tasks, ops.shape(outputs)[0])
    pair_weights = _pair_weights(weights, pairs)
    if pairs.by_row is None:
        own = outputs if slots is None else gather(outputs, slots)
        combined = segment_sum(
            own * pair_weights[:, None], pairs.rows, ops.shape(weights)[0]
        )
    else:
        combined = _add_up(
            outputs, slots, pair_weights, pairs, ops.shape(weights)[0]
        )
    combined = ops.reshape(combined, (-1, num_tasks, outputs.shape[1]))
    return ops.unstack(combined, num=num_tasks, axis=1)


def _slots(pairs: RoutingPlan, num_tasks: int, num_slots: Any) -> Any:
    """The slot that holds the output of each of the tasks' pairs.

    Both the tasks' pairs and the slots are in the order of experts and rows:
    the next slot begins where either changes.
    """
    rows = pairs.rows // num_tasks
    changes = ops.logical_or(
        rows[1:] != rows[:-1], pairs.experts[1:] != pairs.experts[:-1]
    )
    slots = ops.pad(ops.cumsum(ops.cast(changes, "int32")), [[1, 0]])
    # Those that hold no pair come last.
    return ops.minimum(slots[: ops.shape(rows)[0]], num_slots - 1)


def _pair_weights(weights: Any, pairs: RoutingPlan) -> Any:
    """The weight of each pair, 0 for those that are none."""
    num_experts = weights.shape[1]
    used = ops.cast(pairs.experts < num_experts, "float32")
    column = ops.minimum(pairs.experts, num_experts - 1)
    place = pairs.rows * num_experts + column
    return used * gather(ops.reshape(weights, (-1,)), place)


def _add_up(
    outputs: Any, slots: Any, weights: Any, pairs: RoutingPlan, num_rows: Any
) -> Any:
    """Adds up the outputs of each row's pairs in the order of the rows.

    Args:
        outputs: Tensor `(S, H)`.
        slots: Int32 `(P,)`, the slot of each pair; `None`: its own.
        weights: Float32 `(P,)`.
        pairs: The `P` pairs, with their order by row.
        num_rows: The rows to add up for.
    """

    def added(outputs: Any, weights: Any) -> tuple[Any, Any]:
        def gradient(*args: Any, upstream: Any = None) -> tuple[Any, Any]:
            upstream_grad = args[0] if upstream is None else upstream
            pair_grads = gather(upstream_grad, pairs.rows)
            if slots is None:
                of_weights = ops.sum(pair_grads * outputs, axis=1)
                return pair_grads * weights[:, None], of_weights
            of_weights = ops.sum(pair_grads * gather(outputs, slots), axis=1)
            of_outputs = sparse_matmul(
                slots, pairs.rows, weights, upstream_grad, ops.shape(outputs)[0]
            )
            return of_outputs, of_weights

        columns = pairs.by_row
        if slots is not None:
            columns = gather(slots, pairs.by_row)
        rows = gather(pairs.rows, pairs.by_row)
        values = gather(weights, pairs.by_row)
        return sparse_matmul(rows, columns, values, outputs, num_rows), gradient

    return ops.custom_gradient(added)(outputs, weights)
