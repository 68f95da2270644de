"""What a training step has of several processes, or replicas, that share it.

Within `recsys.distribution.process_group.shared_with`, each process has its
rows of a batch. Losses of tasks are those of all rows; what layers add, such as
the losses of gates, is the mean of what each process has for its rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import keras
from keras import ops

from keras_moe.types import Logs
from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.distribution.process_group import ProcessGroup
from recsys.distribution.process_group import current_group
from recsys.tables.marks import by_rows
from recsys.tables.row_lookups import lookups_of
from recsys.tables.track_loss import track_loss

# Replicas are threads, each with a value of its own.
_of_replica: ContextVar[list[Tensor] | None] = ContextVar(
    "losses_of_replica", default=None
)


def replica_losses() -> list[Tensor] | None:
    """Returns the losses that `kept_losses` keeps, `None` outside of it."""
    return _of_replica.get()


@contextmanager
def kept_losses(model: keras.Model) -> Iterator[None]:
    """The scope in which a replica keeps the losses that its layers added.

    Layers have one list of them, in which the next replica, that runs while
    this one waits for its rows, puts its own. Where the process has no
    replicas, nothing is kept.

    Args:
        model: A model that replicas share.
    """
    group = current_group()
    has_replicas = group is not None and group.in_one_process
    token = _of_replica.set(list(model.losses) if has_replicas else None)
    try:
        yield
    finally:
        _of_replica.reset(token)


def loss_of_processes(loss: Tensor) -> Tensor:
    """Returns the mean of the processes' losses.

    Args:
        loss: The loss of this process, with its gradient.

    Returns:
        A tensor with that gradient; `loss` where there are no other processes.
    """
    group = current_group()
    if group is None or group.in_one_process:
        return loss
    return loss + (group.mean(loss) - ops.stop_gradient(loss))


def process_step(
    model: keras.Model, group: ProcessGroup, data: Structure
) -> Logs:
    """`keras.Model.train_step` on PyTorch, with the mean of the gradients.

    Args:
        model: A compiled model.
        group: The processes that share the step.
        data: The rows of a batch that this process has.

    Returns:
        The logs.
    """
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
        means = group.mean_gradients(gradients, variables, by_rows(variables))
        model.optimizer.apply(means, variables)
    return model.compute_metrics(x, y, predictions, sample_weight)
