import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="recsys")
class StandardizedSquaredError(keras.losses.Loss):
    """The squared error in units of a scale: ((label - prediction) / scale)².

    With the standard deviation of the labels as the scale, predicting their
    mean costs 1, whatever unit they are in, and the gradients of the task are
    about as large as those of any other.

    Args:
        scale: Float above 0, in the unit of the labels.
        reduction: As in `keras.losses.Loss`. Defaults to
            `"sum_over_batch_size"`.
        name: Defaults to `"standardized_squared_error"`.

    Example:
    >>> loss = StandardizedSquaredError(scale=1000.0)
    >>> float(loss(np.array([[5000.0]]), np.array([[3000.0]])))
    4.0
    """

    def __init__(
        self,
        scale: float,
        reduction: str | None = "sum_over_batch_size",
        name: str = "standardized_squared_error",
    ) -> None:
        super().__init__(name=name, reduction=reduction)
        self.scale = scale

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        # Each on its own: the difference of two large numbers may overflow.
        errors = y_true / self.scale - y_pred / self.scale
        return ops.mean(ops.square(errors), axis=-1)

    def get_config(self) -> Config:
        # Not that of `Loss`, which has a dtype, too.
        return {
            "scale": self.scale,
            "reduction": self.reduction,
            "name": self.name,
        }
