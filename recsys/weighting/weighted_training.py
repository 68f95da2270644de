from collections.abc import Callable
from importlib import import_module
from typing import Any

import keras
from keras import ops

from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.distribution.process_group import whole_loss
from recsys.weighting.task_weighting import TaskWeighting


class WeightedTraining:
    """Lets a model's `fit` weigh the losses of its tasks as it goes.

    A base class beside `keras.Model`, before it. Without a `weighting`, the
    model is as it was. The model's outputs, labels and sample weights are
    dicts by task, and it is compiled with what `loss_of` returns.

    What `fit` logs as the loss is the sum with fixed weights, whatever the
    weighting, so that it can be compared with the loss of the validation.

    Attributes:
        weighting: A method that is built on the model's optimizer, or `None`.
    """

    weighting: TaskWeighting | None = None
    loss_of: Callable[[str], keras.losses.Loss]

    def train_step(self, *arguments: Any) -> Any:
        """A step of `fit`, as Keras calls it."""
        if self.weighting is None:
            return super().train_step(*arguments)  # type: ignore[misc]
        name = "jax" if keras.backend.backend() == "jax" else "eager"
        step = import_module(f"recsys.weighting.{name}_step")
        return step.train_step(self, *arguments)

    def compute_loss(
        self,
        x: Structure = None,
        y: Structure = None,
        y_pred: Structure = None,
        sample_weight: Structure = None,
        training: bool = True,
    ) -> Tensor:
        """Returns the loss; while tasks are weighed, what it is the sum of.

        Returns:
            A scalar; or in a training step with a `weighting` a tensor
            `(tasks + 1,)`: the weighed tasks' losses times their fixed weight,
            and all else, such as regularizers.
        """
        total = super().compute_loss(  # type: ignore[misc]
            x, y, y_pred, sample_weight, training=training
        )
        if self.weighting is None or not training:
            return total
        weights = self.weighting.task_weights
        losses = {
            task: whole_loss(
                self.loss_of(task)(
                    y[task],
                    y_pred[task],
                    None if sample_weight is None else sample_weight[task],
                )
            )
            for task in y_pred
        }
        parts = [weight * losses[task] for task, weight in weights.items()]
        # Those of weight 0 for gradients of 0, which optimizers want.
        rest = [0.0 * losses[task] for task in losses if task not in weights]
        rest += [ops.sum(loss) for loss in self.losses]  # type: ignore[attr-defined]
        return ops.stack(
            [ops.cast(part, "float32") for part in [*parts, sum(rest)]]
        )
