import keras

from keras_moe.types import IntegerLike
from keras_moe.types import Tensor


def track_loss(
    model: keras.Model, loss: Tensor, rows: IntegerLike | None = None
) -> None:
    """Adds the loss of a batch to the mean that `fit` logs.

    Keras's guides to training steps of one's own find the mean in this way.

    Args:
        model: A compiled model.
        loss: Scalar, the mean over the rows of a batch.
        rows: Scalar, how many rows those are. Defaults to `None`: batches count
            alike.
    """
    mean = next(metric for metric in model.metrics if metric.name == "loss")
    mean.update_state(loss, sample_weight=rows)
