from collections.abc import Callable
from typing import NamedTuple

from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.ops._rows import gather
from keras_moe.ops._rows import scatter
from keras_moe.ops._rows import segment_sum
from keras_moe.ops._rows import true_places
from keras_moe.ops._sparse_matmul import sparse_matmul
from keras_moe.ops.routing_plan import RoutingPlan
from keras_moe.ops.routing_plan import check_plan
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
    check_plan(plan)
    weights = as_tensor("weights", weights, 3)
    num_tasks = weights.shape[1]
    outputs = ops.cast(as_tensor("outputs", outputs, 2), "float32")
    if plan.by_row is not None:
        combined = _add_up(outputs, weights, plan, plan.by_row)
    else:
        combined = _add_up_static(outputs, weights, plan, max_pairs)
    combined = ops.reshape(  # (N T, H) to (N, T, H)
        combined, (-1, num_tasks, outputs.shape[1])
    )
    return ops.unstack(combined, num=num_tasks, axis=1)  # T times (N, H)


def _add_up_static(
    outputs: Tensor,
    weights: Tensor,
    plan: RoutingPlan,
    max_pairs: IntegerLike | None,
) -> Tensor:
    """The sums `(N T, H)`, in shapes that no value changes."""
    _, num_tasks, num_experts = weights.shape
    # Each (row, task) becomes a row of its own, for which only its own pairs
    # are added up: going over all slots for every task would touch up to T
    # times as many.
    weights = ops.reshape(weights, (-1, num_experts))  # (N T, E)
    pairs, rows = plan, outputs
    if num_tasks > 1:
        # Enough, as it is the caller's count of these weights.
        pairs = routing_plan(weights != 0, max_pairs)
        slots = _slots(pairs, num_tasks, ops.shape(outputs)[0])  # (P,)
        rows = gather(outputs, slots)  # (P, H)
    of_pairs = pair_weights(weights, pairs)  # (P,)
    # In slots without a pair may stand NaN, which no weight of 0 hides.
    used = (pairs.experts < num_experts)[:, None]
    rows = ops.where(used, rows, 0.0)
    return segment_sum(
        rows * of_pairs[:, None], pairs.rows, ops.shape(weights)[0]
    )


def pair_weights(weights: Tensor, plan: RoutingPlan) -> Tensor:
    """The weight of the pair in each slot, 0 in those that hold none.

    Args:
        weights: Float32 tensor `(N, E)`.
        plan: The plan, with rows from 0 to `N - 1`.

    Returns:
        Float32 tensor `(S,)`.
    """
    num_experts = weights.shape[1]
    column = ops.minimum(plan.experts, num_experts - 1)
    place = plan.rows * num_experts + column  # (S,), of N E.
    of_pairs = gather(ops.reshape(weights, (-1,)), place)  # (S,)
    return ops.where(plan.experts < num_experts, of_pairs, 0.0)


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


def _add_up(
    outputs: Tensor,
    weights: Tensor,
    plan: RoutingPlan,
    by_row: Tensor,
) -> Tensor:
    """The sums `(N T, H)`, as a product with the sparse matrix of weights."""
    num_rows, num_tasks, num_experts = ops.shape(weights)
    num_sums = num_rows * num_tasks

    def added(
        outputs: Tensor, weights: Tensor
    ) -> tuple[Tensor, Callable[..., tuple[Tensor, Tensor]]]:
        def gradient(
            *args: Tensor, upstream: Tensor | None = None
        ) -> tuple[Tensor, Tensor]:
            upstream_grad = args[0] if upstream is None else upstream
            pairs = _by_slot(weights, plan)
            pair_grads = gather(upstream_grad, pairs.sums)  # (P, H)
            rows = outputs
            if num_tasks == 1:
                of_outputs = pair_grads * pairs.weights[:, None]
            else:
                rows = gather(outputs, pairs.slots)  # (P, H)
                of_outputs = sparse_matmul(  # (S, H)
                    pairs.slots,
                    pairs.sums,
                    pairs.weights,
                    upstream_grad,
                    ops.shape(outputs)[0],
                )
            of_pairs = ops.sum(pair_grads * rows, axis=1)  # (P,)
            of_weights = scatter(of_pairs, pairs.places, num_sums * num_experts)
            return of_outputs, ops.reshape(of_weights, ops.shape(weights))

        pairs = _by_row(weights, plan, by_row)
        sums = sparse_matmul(
            pairs.sums, pairs.slots, pairs.weights, outputs, num_sums
        )
        return sums, gradient

    return ops.custom_gradient(added)(outputs, weights)


class _Pairs(NamedTuple):
    """The weights that are not zero: (row, task) sums over some slots.

    Attributes:
        places: Int32 `(P,)`, where each stands among all N T E.
        sums: Int32 `(P,)`, the row and task that it is of, among N T.
        slots: Int32 `(P,)`, whose output it weighs.
        weights: Float32 `(P,)`.
    """

    places: Tensor
    sums: Tensor
    slots: Tensor
    weights: Tensor


def _by_row(weights: Tensor, plan: RoutingPlan, by_row: Tensor) -> _Pairs:
    """The pairs in the order of rows, tasks and experts."""
    num_rows, num_tasks, num_experts = ops.shape(weights)
    if num_tasks == 1:
        # Those of the plan.
        slots = by_row
        sums = gather(plan.rows, slots)
        places = sums * num_experts + gather(plan.experts, slots)
    else:
        places = true_places(weights != 0)
        sums = places // num_experts
        # The slot of the row, whichever its task.
        slots = scatter(
            ops.arange(ops.shape(plan.rows)[0], dtype="int32"),
            plan.rows * num_experts + plan.experts,
            num_rows * num_experts,
        )
        of_row = (sums // num_tasks) * num_experts + places % num_experts
        slots = gather(slots, of_row)
    values = gather(ops.reshape(weights, (-1,)), places)
    return _Pairs(places, sums, slots, values)


def _by_slot(weights: Tensor, plan: RoutingPlan) -> _Pairs:
    """The pairs in the order of slots and tasks."""
    num_tasks, num_experts = weights.shape[1:]
    slots = ops.arange(ops.shape(plan.rows)[0], dtype="int32")
    tasks = ops.arange(num_tasks, dtype="int32")
    sums = plan.rows[:, None] * num_tasks + tasks  # (S, T)
    places = sums * num_experts + plan.experts[:, None]  # (S, T)
    values = gather(ops.reshape(weights, (-1,)), places)  # (S, T)
    sums, places, values = (
        ops.reshape(tensor, (-1,)) for tensor in (sums, places, values)
    )
    if num_tasks == 1:
        return _Pairs(places, sums, slots, values)
    used = true_places(values != 0)  # (P,), of S T.
    return _Pairs(
        gather(places, used),
        gather(sums, used),
        used // num_tasks,
        gather(values, used),
    )
