from collections.abc import Iterable

import keras
from keras import ops

from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.distribution.process_group import whole_loss

# The weighted sum of the tasks' losses, without what layers add to it.
TOTAL = "total_loss"


class LoggedLosses:
    """Lets `fit` log what the loss of a training consists of.

    A base class beside `keras.Model`, before it and behind those that change
    what the loss is. Until `log_losses` is called, the model is as it was.
    """

    _means: "_Means | None" = None

    def log_losses(self, further: Iterable[str] = ()) -> None:
        """Makes `fit` log `total_loss`, and the losses that `note_loss` names.

        Args:
            further: Their names.
        """
        # Metrics that are attributes would be saved with the model.
        self._means = _Means([TOTAL, *further])

    def note_loss(self, name: str, loss: Tensor) -> None:
        """Says what a loss is in the step that is being computed.

        Args:
            name: One of those that `log_losses` was given; any other is not
                logged.
            loss: Scalar.
        """
        if self._means is not None:
            self._means.noted[name] = ops.stop_gradient(loss)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """All metrics, as Keras asks for them."""
        metrics: list[keras.metrics.Metric] = super().metrics  # type: ignore[misc]
        if self._means is None:
            return metrics
        return [*metrics, *self._means.by_name.values()]

    def compute_loss(
        self,
        x: Structure = None,
        y: Structure = None,
        y_pred: Structure = None,
        sample_weight: Structure = None,
        training: bool = True,
    ) -> Tensor:
        """Returns the loss, as Keras asks for it."""
        loss = super().compute_loss(  # type: ignore[misc]
            x, y, y_pred, sample_weight, training=training
        )
        if self._means is not None:
            added = sum(ops.sum(one) for one in self.losses)  # type: ignore[attr-defined]
            total = whole_loss(loss) - added
            rows = ops.shape(keras.tree.flatten(y_pred)[0])[0]
            self._means.update(ops.stop_gradient(total), rows)
        return loss


class _Means:
    """The means of losses over the rows of an epoch."""

    def __init__(self, names: Iterable[str]) -> None:
        self.by_name = {name: keras.metrics.Mean(name) for name in names}
        self.noted: dict[str, Tensor] = {}

    def update(self, total: Tensor, rows: Tensor | None) -> None:
        self.noted[TOTAL] = total
        for name, mean in self.by_name.items():
            if name in self.noted:
                mean.update_state(self.noted[name], sample_weight=rows)
        # What was traced is not kept.
        self.noted.clear()
