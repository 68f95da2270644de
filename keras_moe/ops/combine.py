from typing import Any

from keras import ops

from keras_moe.ops.routing_plan import RoutingPlan
from keras_moe.ops.routing_plan import routing_plan
from keras_moe.ops.routing_plan import slots_of_pairs
from keras_moe.ops.rows import add_rows
from keras_moe.ops.rows import take_rows


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
    if num_tasks == 1:
        return [_add_up(outputs, weights[:, 0], plan)]
    selected = ops.any(weights != 0, axis=1)
    # What a task wants of a row is a row of its own, (N T, E), and what is
    # added up are its own pairs: to go over all slots for every task would
    # touch up to T times as many.
    weights = ops.reshape(weights, (-1, num_experts))
    pairs = routing_plan(weights != 0, max_pairs)
    own = take_rows(outputs, _slots(pairs, plan, selected, num_tasks))
    combined = _add_up(own, weights, pairs)
    return ops.unstack(
        ops.reshape(combined, (-1, num_tasks, outputs.shape[1])), axis=1
    )


def _slots(
    pairs: RoutingPlan, plan: RoutingPlan, selected: Any, num_tasks: int
) -> Any:
    """The slot of `plan` that holds the output of each of the tasks' pairs."""
    num_experts = selected.shape[1]
    used = pairs.experts < num_experts
    index = pairs.rows // num_tasks * num_experts + pairs.experts
    table = ops.reshape(slots_of_pairs(selected, plan.group_sizes), (-1,))
    return take_rows(table, ops.where(used, index, 0))


def _add_up(outputs: Any, weights: Any, plan: RoutingPlan) -> Any:
    """Adds the outputs `(S, H)` in a plan's slots, weighted by `(N, E)`."""
    num_rows = ops.shape(weights)[0]
    num_experts = weights.shape[1]
    rows = ops.convert_to_tensor(plan.rows)
    column = ops.minimum(plan.experts, num_experts - 1)
    used = ops.cast(plan.experts < num_experts, "float32")
    slot_weights = used * take_rows(
        ops.reshape(weights, (-1,)), rows * num_experts + column
    )
    return add_rows(outputs * slot_weights[:, None], rows, num_rows)
