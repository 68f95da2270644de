from typing import Any

from keras import ops

from keras_moe.ops.routing_plan import RoutingPlan
from keras_moe.ops.rows import add_rows
from keras_moe.ops.rows import take_rows


def combine(outputs: Any, weights: Any, plan: RoutingPlan) -> list[Any]:
    """Adds up each row's expert outputs, weighted, for every task.

    Args:
        outputs: Tensor `(S, H)`, the experts' outputs in their slots, finite
            in those without a pair.
        weights: Float32 `(N, T, E)`, zero where a task does not use an
            expert.
        plan: The plan that `outputs` was computed by.

    Returns:
        A float32 tensor `(N, H)` for each of the `T` tasks.
    """
    num_rows = ops.shape(weights)[0]
    _, num_tasks, num_experts = weights.shape
    rows = ops.convert_to_tensor(plan.rows)
    column = ops.minimum(plan.experts, num_experts - 1)
    used = ops.cast(plan.experts < num_experts, "float32")
    outputs = ops.cast(outputs, "float32")
    flat_weights = ops.reshape(weights, (-1,))
    combined = []
    for task in range(num_tasks):
        index = (rows * num_tasks + task) * num_experts + column
        slot_weights = take_rows(flat_weights, index) * used
        combined.append(
            add_rows(outputs * slot_weights[:, None], rows, num_rows)
        )
    return combined
