from collections.abc import Iterable
from collections.abc import Sequence

import keras
from keras import ops

from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.distribution.process_group import whole_loss

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
        total = whole_loss(loss) - sum(ops.sum(one) for one in added)
        rows = ops.shape(keras.tree.flatten(predictions)[0])[0]
        self._noted[TOTAL] = ops.stop_gradient(total)
        for mean in self.metrics:
            if mean.name in self._noted:
                mean.update_state(self._noted[mean.name], sample_weight=rows)
        # What was traced is not kept.
        self._noted.clear()
