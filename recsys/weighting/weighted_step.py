from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import keras
from keras import ops

from keras_moe.types import Tensor
from recsys.distribution.process_group import whole_loss
from recsys.weighting.task_weighting import TaskWeighting


def weighted_step(model: keras.Model, *arguments: Any) -> Any:
    """`keras.Model.train_step` with the gradient of the weighted losses.

    Args:
        model: A compiled model with a `weighting`, whose `compute_loss`
            returns what `losses_by_task` does.
        *arguments: As Keras calls `train_step` on the active backend.

    Returns:
        What Keras's `train_step` returns on the active backend.
    """
    name = "jax" if keras.backend.backend() == "jax" else "eager"
    step = import_module(f"recsys.weighting.{name}_step")
    return step.train_step(model, *arguments)


def losses_by_task(
    weighting: TaskWeighting,
    loss_of: Callable[[str], keras.losses.Loss],
    labels: Mapping[str, Tensor],
    predictions: Mapping[str, Tensor],
    sample_weights: Mapping[str, Tensor] | None,
    added: Sequence[Tensor],
) -> Tensor:
    """Returns what the loss of a step is the sum of, for a method to weigh.

    Args:
        weighting: The method.
        loss_of: Returns the loss of a task by its name.
        labels: By task.
        predictions: By task.
        sample_weights: By task; `None` where all rows count alike.
        added: The losses that layers add, such as regularizers.

    Returns:
        Float32 tensor `(tasks + 1,)`: the weighed tasks' losses times their
        fixed weight, and all else.
    """
    weights = weighting.task_weights
    losses = {
        task: whole_loss(
            loss_of(task)(
                labels[task],
                predictions[task],
                None if sample_weights is None else sample_weights[task],
            )
        )
        for task in predictions
    }
    parts = [weight * losses[task] for task, weight in weights.items()]
    # Those of weight 0 for gradients of 0, which optimizers want.
    rest = [0.0 * losses[task] for task in losses if task not in weights]
    rest += [ops.sum(loss) for loss in added]
    return ops.stack(
        [ops.cast(part, "float32") for part in [*parts, sum(rest)]]
    )
