from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.distribution.process_group import all_rows
from recsys.distribution.process_group import current_group
from recsys.distribution.process_group import whole_loss
from recsys.models.process_step import kept_losses
from recsys.models.process_step import loss_of_processes
from recsys.models.process_step import process_step
from recsys.models.process_step import replica_losses
from recsys.tables.table_training import step_by_rows
from recsys.weighting.task_weighting import TaskWeighting
from recsys.weighting.weighted_step import losses_by_task
from recsys.weighting.weighted_step import weighted_step

# The weighted sum of the tasks' losses, without what layers add to it.
TOTAL = "total_loss"


class LoggedLosses:
    """What the loss of a training consists of, as means over an epoch's rows.

    Attributes:
        metrics: A mean for `total_loss`, and one for each further loss.

    Args:
        further: The names of losses that are noted in a step. Defaults to
            none.
    """

    def __init__(self, further: Iterable[str] = ()) -> None:
        self.metrics = [keras.metrics.Mean(name) for name in (TOTAL, *further)]
        self._noted: dict[str, Tensor] = {}

    def note(self, name: str, loss: Tensor) -> None:
        """Says what a loss is in the step that is being computed.

        Args:
            name: One of `further`; any other is not logged.
            loss: Scalar.
        """
        self._noted[name] = ops.stop_gradient(loss)

    def update(
        self, loss: Tensor, added: Sequence[Tensor], predictions: Structure
    ) -> None:
        """Adds the losses of a step to the means.

        Args:
            loss: Scalar, the whole loss as Keras computes it.
            added: The losses in it that layers add.
            predictions: Tensors `(rows, ...)` in any structure.
        """
        total = whole_loss(loss) - sum(ops.sum(part) for part in added)
        rows = ops.shape(keras.tree.flatten(predictions)[0])[0]
        self._noted[TOTAL] = ops.stop_gradient(total)
        for mean in self.metrics:
            if mean.name in self._noted:
                mean.update_state(self._noted[mean.name], sample_weight=rows)
        # What was traced is not kept.
        self._noted.clear()


class TaskTraining(keras.Model):
    """A Keras model that `fit` trains on the losses of several tasks.

    All that a training step of this package does otherwise than Keras's is
    called here, in its order: weights of tasks that change as it goes, tables
    that are trained by rows, processes that share a batch, losses that are
    logged. Outputs, labels and sample weights are dicts by task, and the model
    is compiled with what `loss_of` returns. Without a `weighting`, with an
    optimizer of Keras, outside of a group of processes and until `log_losses`
    is called, a step is Keras's own.

    What `fit` logs as the loss is the sum with fixed weights, whatever the
    weighting, so that it can be compared with the loss of the validation.

    Attributes:
        weighting: A method that is built on the model's optimizer, or `None`.
    """

    weighting: TaskWeighting | None = None
    _logged: LoggedLosses | None = None

    def loss_of(self, task: str) -> keras.losses.Loss:
        """Returns the loss that a task is trained on.

        Args:
            task: Name of the task.
        """
        raise NotImplementedError

    def train_step(self, *arguments: Any) -> Any:
        """A step of `fit`, as Keras calls it.

        Tables are trained by rows in each of the three, and a weighted step
        shares its gradients with other processes, too.
        """
        if self.weighting is not None:
            return weighted_step(self, *arguments)
        group = current_group()
        if group is None or group.in_one_process:
            return step_by_rows(self, super().train_step, *arguments)
        return process_step(self, group, *arguments)

    def compute_loss(
        self,
        x: Structure = None,
        y: Structure = None,
        y_pred: Structure = None,
        sample_weight: Structure = None,
        training: bool = True,
    ) -> Tensor:
        """Returns the loss of all rows, with the gradient of this process.

        Returns:
            A scalar; or in a training step with a `weighting` a tensor
            `(tasks + 1,)`, as `losses_by_task` returns it.
        """
        with kept_losses(self):
            y, y_pred, sample_weight = all_rows((y, y_pred, sample_weight))
            loss = super().compute_loss(
                x, y, y_pred, sample_weight, training=training
            )
            if self._logged is not None:
                self._logged.update(loss, self.losses, y_pred)
            if self.weighting is not None and training:
                loss = losses_by_task(
                    self.weighting,
                    self.loss_of,
                    y,
                    y_pred,
                    sample_weight,
                    self.losses,
                )
        return loss_of_processes(loss)

    @property
    def losses(self) -> list[Tensor]:
        """Losses added by layers, as Keras asks for them."""
        kept = replica_losses()
        return super().losses if kept is None else kept

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """All metrics, as Keras asks for them."""
        logged = [] if self._logged is None else self._logged.metrics
        return [*super().metrics, *logged]

    def log_losses(self, further: Iterable[str] = ()) -> None:
        """Makes `fit` log `total_loss`, and the losses that `note_loss` names.

        Args:
            further: Their names. Defaults to none.
        """
        # Metrics that are attributes would be saved with the model.
        self._logged = LoggedLosses(further)

    def note_loss(self, name: str, loss: Tensor) -> None:
        """Says what a loss is in the step that is being computed.

        Args:
            name: One of those that `log_losses` was given; any other is not
                logged.
            loss: Scalar.
        """
        if self._logged is not None:
            self._logged.note(name, loss)
