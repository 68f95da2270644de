import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="recsys")
class ImbalancedCrossentropy(keras.losses.Loss):
    """The cross-entropy of rare ones: more for a 1, less for what is easy.

        -w y (1 - p)^γ log p - (1 - y) p^γ log(1 - p)

    with the label y, the probability p, the weight w of ones and the focusing
    parameter γ.

    Args:
        pos_weight: Float above 0, w. Defaults to 1.
        gamma: Float of at least 0, γ. With 0 (default) what is predicted well
            counts like all else.
        reduction: As in `keras.losses.Loss`. Defaults to
            `"sum_over_batch_size"`.
        name: Defaults to `"imbalanced_crossentropy"`.

    Example:
    >>> labels, half = np.array([[1.0], [0.0]]), np.array([[0.5], [0.5]])
    >>> loss = ImbalancedCrossentropy(pos_weight=3.0, gamma=2.0)
    >>> round(float(loss(labels, half)), 4)  # (3 + 1) / 2 · ln 2 / 4
    0.3466

    References:
        Lin, Goyal, Girshick, He, Dollár. Focal Loss for Dense Object
        Detection. ICCV 2017, section 3.2, equation 4 (γ) and section 3.1 (a
        weight, there α for a 1 and 1 - α for a 0).
    """

    def __init__(
        self,
        pos_weight: float = 1.0,
        gamma: float = 0.0,
        reduction: str | None = "sum_over_batch_size",
        name: str = "imbalanced_crossentropy",
    ) -> None:
        super().__init__(name=name, reduction=reduction)
        self.pos_weight = pos_weight
        self.gamma = gamma

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        # As far from 0 and 1 as in Keras's own cross-entropy.
        epsilon = keras.config.epsilon()
        p = ops.clip(y_pred, epsilon, 1 - epsilon)
        ones = y_true * ops.power(1 - p, self.gamma) * ops.log(p)
        zeros = (1 - y_true) * ops.power(p, self.gamma) * ops.log(1 - p)
        return ops.mean(-self.pos_weight * ones - zeros, axis=-1)

    def get_config(self) -> Config:
        # Not that of `Loss`, which has a dtype, too.
        return {
            "pos_weight": self.pos_weight,
            "gamma": self.gamma,
            "reduction": self.reduction,
            "name": self.name,
        }
