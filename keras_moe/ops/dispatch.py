from collections.abc import Callable
from math import prod

from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.ops._rows import gather
from keras_moe.ops._sparse_matmul import sparse_matmul
from keras_moe.ops.routing_plan import RoutingPlan
from keras_moe.ops.routing_plan import check_plan
from keras_moe.types import Tensor


def dispatch(inputs: Tensor, plan: RoutingPlan) -> Tensor:
    """Copies rows to the slots of a plan.

    Args:
        inputs: Tensor `(N, ...)`.
        plan: Says which row each slot holds.

    Returns:
        Tensor `(S, ...)`: the rows of the first expert, then those of the
        second, and so on.

    Example:
        >>> from keras_moe.ops import routing_plan
        >>> plan = routing_plan(np.array([[True, False], [True, True]]), 3)
        >>> slots = dispatch(np.array([[5.0], [6.0]]), plan)
        >>> keras.ops.convert_to_numpy(slots).ravel().tolist()
        [5.0, 6.0, 6.0]
    """
    check_plan(plan)
    inputs = as_tensor("inputs", inputs, 1)
    by_row = plan.by_row
    if by_row is None:
        return gather(inputs, plan.rows)
    num_rows, *shape = ops.shape(inputs)

    def taken(values: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
        def gradient(*args: Tensor, upstream: Tensor | None = None) -> Tensor:
            upstream_grad = args[0] if upstream is None else upstream
            rows = gather(plan.rows, by_row)  # (S,), in ascending order.
            return sparse_matmul(rows, by_row, None, upstream_grad, num_rows)

        return gather(values, plan.rows), gradient

    # The gradient adds up what the slots of a row get; that of a gather
    # would do so one row after the other, on a single core.
    flat = ops.reshape(inputs, (num_rows, prod(shape)))  # (N, values)
    slots = ops.custom_gradient(taken)(flat)
    return ops.reshape(slots, (-1, *shape))  # (S, values) to (S, ...)
