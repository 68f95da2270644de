from contextvars import ContextVar
from typing import TYPE_CHECKING
from typing import Any

import keras

from keras_moe.types import Logs
from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.distribution.process_group import all_rows
from recsys.distribution.process_group import current_group
from recsys.tables.marks import by_rows
from recsys.tables.row_lookups import lookups_of
from recsys.tables.track_loss import track_loss

if TYPE_CHECKING:
    pass

# Replicas are threads, each with a value of its own.
_of_replica: ContextVar[list[Tensor] | None] = ContextVar(
    "losses_of_replica", default=None
)


class ProcessTraining:
    """Lets several processes take a step of `fit` together.

    A base class beside `keras.Model`, before it and before those that change
    a step otherwise. Within `recsys.distribution.process_group.shared_with`,
    each process has its rows of a batch. Losses of tasks are those of all rows;
    what layers add, such as the losses of gates, is the mean of what each
    process has for its rows. Anywhere else, the model is as it was.
    """

    weighting: Any
    optimizer: keras.optimizers.Optimizer

    @property
    def losses(self) -> list[Tensor]:
        """Losses added by layers, as Keras asks for them."""
        of_replica = _of_replica.get()
        if of_replica is not None:
            return of_replica
        added: list[Tensor] = super().losses  # type: ignore[misc]
        return added

    def train_step(self, *arguments: Any) -> Any:
        """A step of `fit`, as Keras calls it."""
        group = current_group()
        by_itself = group is None or group.in_one_process
        if by_itself or self.weighting is not None:
            return super().train_step(*arguments)  # type: ignore[misc]
        return _train_step(self, *arguments)

    def compute_loss(
        self,
        x: Structure = None,
        y: Structure = None,
        y_pred: Structure = None,
        sample_weight: Structure = None,
        training: bool = True,
    ) -> Tensor:
        """Returns the loss of all rows, with the gradient of this process."""
        group = current_group()
        # Layers keep a list of what they add, in which the next replica, that
        # runs while this one waits for its rows, puts its own.
        token = _of_replica.set(
            list(self.losses) if group and group.in_one_process else None
        )
        try:
            if group is not None:
                y, y_pred, sample_weight = all_rows((y, y_pred, sample_weight))
            loss = super().compute_loss(  # type: ignore[misc]
                x, y, y_pred, sample_weight, training=training
            )
        finally:
            _of_replica.reset(token)
        if group is None or group.in_one_process:
            return loss
        return loss + (group.mean(loss) - loss.detach())


def _train_step(model: keras.Model, data: Structure) -> Logs:
    """That of Keras on PyTorch, with the mean of the gradients."""
    import torch

    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    model.zero_grad()
    with lookups_of(model.optimizer):
        predictions = model(x, training=True)
        loss = model.compute_loss(x, y, predictions, sample_weight)
        track_loss(model, loss)
        model.optimizer.scale_loss(loss).backward()
    variables = model.trainable_variables
    with torch.no_grad():
        gradients = [variable.value.grad for variable in variables]
        group = current_group()
        assert group is not None
        means = group.mean_gradients(gradients, variables, by_rows(variables))
        model.optimizer.apply(means, variables)
    return model.compute_metrics(x, y, predictions, sample_weight)
