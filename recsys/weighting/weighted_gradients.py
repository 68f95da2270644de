from collections.abc import Callable
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_moe.types import Tensor
from recsys.tables.row_lookups import backend_rows
from recsys.weighting.task_weighting import Gradients
from recsys.weighting.task_weighting import TaskWeighting

PullBack = Callable[[Tensor, Sequence[keras.Variable]], Sequence[Tensor | None]]


def weighted_gradients(
    weighting: TaskWeighting,
    parts: Tensor,
    pull_back: PullBack,
    variables: Sequence[keras.Variable],
) -> Sequence[Tensor | None]:
    """Gradients of the tasks' losses, on every backend.

    Args:
        weighting: The method that weighs them.
        parts: Tensor `(tasks + 1,)`: the losses of the tasks, and all else.
        pull_back: Returns the gradients of the sum of the parts, each times
            its number in the first argument, by the variables of the second:
            `None` where there is none, and of rows where a table is trained
            by rows.
        variables: Trainable variables of the model.

    Returns:
        The gradients of the weighted sum by the variables.
    """
    tasks = weighting.num_tasks
    products = None
    if weighting.gradients is not Gradients.NOTHING:
        chosen = list(variables)
        if weighting.gradients is Gradients.SHARED:
            chosen = weighting.shared_weights
        alone = np.eye(tasks, tasks + 1, dtype="float32")
        by_task = [
            pull_back(ops.convert_to_tensor(row), chosen) for row in alone
        ]
        products = _products(by_task, chosen)
    factors = weighting.step(parts[:-1], products)
    ones = ops.ones((1,), dtype="float32")
    return pull_back(ops.concatenate([factors, ones]), variables)


def _products(
    by_task: Sequence[Sequence[Tensor | None]],
    variables: Sequence[keras.Variable],
) -> Tensor:
    """The inner products of the tasks' gradients, `(tasks, tasks)`."""
    tasks = len(by_task)
    total = ops.zeros((tasks, tasks), dtype="float32")
    for index, variable in enumerate(variables):
        gradients = [of_task[index] for of_task in by_task]
        some = [gradient for gradient in gradients if gradient is not None]
        if any(map(backend_rows.is_row_gradient, some)):
            total = total + _row_products(gradients, variable)
        elif some:
            flat = ops.stack(
                [
                    ops.zeros((int(np.prod(variable.shape)),))
                    if gradient is None
                    else ops.cast(ops.reshape(gradient, (-1,)), "float32")
                    for gradient in gradients
                ]
            )  # (tasks, numbers)
            total = total + ops.matmul(flat, ops.transpose(flat))
    return total


def _row_products(
    gradients: Sequence[Tensor | None], table: keras.Variable
) -> Tensor:
    """The inner products of gradients of rows of one table."""

    def product(left: Tensor | None, right: Tensor | None) -> Tensor:
        if left is None or right is None:
            return ops.zeros((), dtype="float32")
        inner = backend_rows.inner_product(left, right, table)
        return ops.cast(inner, "float32")

    return ops.stack(
        [
            ops.stack([product(left, right) for right in gradients])
            for left in gradients
        ]
    )
