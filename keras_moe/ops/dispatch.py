"""Moves rows to the slots of a routing plan and their outputs back."""

from typing import Any

from keras import ops

from keras_moe.ops.routing_plan import RoutingPlan
from keras_moe.ops.rows import add_rows
from keras_moe.ops.rows import take_rows


def dispatch(inputs: Any, plan: RoutingPlan) -> Any:
    """Copies each row to the slots that need it.

    Args:
        inputs: Tensor `(N, ...)`.
        plan: The plan, with `C` blocks of `B` rows.

    Returns:
        Tensor `(C, B, ...)`. Empty slots hold zeros, which no expert turns
        into anything but a finite number.
    """
    return take_rows(_with_zero_row(inputs), plan.rows)


def combine(outputs: Any, weights: Any, plan: RoutingPlan) -> list[Any]:
    """Adds up each row's expert outputs, weighted, for every task.

    Args:
        outputs: Tensor `(C, B, H)`, the experts' outputs in their slots.
        weights: Float32 `(N, T, E)`, zero where a task does not use an
            expert.
        plan: The plan that `outputs` was computed by.

    Returns:
        A float32 tensor `(N, H)` for each of the `T` tasks.
    """
    num_rows = ops.shape(weights)[0]
    _, num_tasks, num_experts = weights.shape
    units = outputs.shape[-1]
    slots = ops.convert_to_tensor(plan.rows)
    rows = ops.reshape(slots, (-1,))
    column = ops.minimum(plan.experts, num_experts - 1)[:, None]
    flat_outputs = ops.cast(ops.reshape(outputs, (-1, units)), "float32")
    flat_weights = ops.reshape(_with_zero_row(weights), (-1,))
    combined = []
    for task in range(num_tasks):
        index = (slots * num_tasks + task) * num_experts
        slot_weights = take_rows(flat_weights, index + column)
        sums = add_rows(
            flat_outputs * ops.reshape(slot_weights, (-1, 1)),
            rows,
            num_rows + 1,
        )
        combined.append(sums[:num_rows])
    return combined


def _with_zero_row(inputs: Any) -> Any:
    """Appends the row that empty slots point to."""
    return ops.pad(inputs, [[0, 1]] + [[0, 0]] * (len(inputs.shape) - 1))
