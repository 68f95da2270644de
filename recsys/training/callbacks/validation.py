import math
from collections.abc import Mapping

import keras

from keras_moe.types import Logs
from recsys.data import Split
from recsys.errors import NonFiniteLossError
from recsys.measuring.measure import measure
from recsys.measuring.measure import trained_loss
from recsys.models.scorer import Scorer
from recsys.tasks import RowRoles


class Validation(keras.callbacks.Callback):
    """Adds the exact metrics of the validation split to an epoch's logs.

    They are `val_loss`, and for each task `val_<task>_loss`, the loss that it
    is trained on, beside those that its kind says are `logged`, such as
    `_auc`, in the label's own unit. Where all tasks share their experts,
    `experts_evaluated` is the mean of how many have to run for a row.

    Keras's own validation averages over batches, which is not the loss of the
    split where labels are missing, and includes regularizers.

    Args:
        scorer: Runs the model that is being trained.
        split: The validation split.
        truth: Its labels, a column per task.
        task_weights: Weight of each task's loss.
        roles: What the rows of the split count, and what they belong to.
    """

    def __init__(
        self,
        scorer: Scorer,
        split: Split,
        truth: Split,
        task_weights: Mapping[str, float],
        roles: RowRoles,
    ) -> None:
        super().__init__()
        self.scorer = scorer
        self.split = split
        self.truth = truth
        self.task_weights = task_weights
        self.roles = roles

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        scores = self.scorer.score(self.split)
        model = self.scorer.model
        metrics = measure(
            scores,
            self.truth,
            model.tasks,
            self.task_weights,
            model.target_scales,
            roles=self.roles,
        )
        if not math.isfinite(metrics["loss"]):
            raise NonFiniteLossError(
                "The validation loss must stay finite; a lower learning rate "
                f"may help. Received: a loss of {metrics['loss']} after epoch "
                f"{epoch + 1}"
            )
        assert logs is not None
        logs["val_loss"] = metrics["loss"]
        if "experts_evaluated" in metrics:
            logs["experts_evaluated"] = metrics["experts_evaluated"]
        for task, values in metrics["tasks"].items():
            logged = {"loss": trained_loss(values)}
            kind = model.tasks[task]
            names = [metric.name_at(self.roles.k) for metric in kind.logged]
            logged |= {name: values.get(name) for name in names}
            for name, value in logged.items():
                if value is not None:
                    logs[f"val_{task}_{name}"] = value
