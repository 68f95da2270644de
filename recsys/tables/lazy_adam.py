from collections.abc import Mapping

import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Tensor
from recsys.tables.row_rule import RowRule
from recsys.tables.row_rule import Shape


@keras.saving.register_keras_serializable(package="recsys")
class LazyAdam(RowRule):
    """Adam whose moments stand still while their row is not touched.

    In step t, the rows that a batch looks up, with summed gradients g, become

        m <- beta_1 m + (1 - beta_1) g
        v <- beta_2 v + (1 - beta_2) g²
        row <- row - rate sqrt(1 - beta_2^t) / (1 - beta_1^t)
                     m / (sqrt(v) + epsilon)

    and all other rows stay as they are. Adam itself goes on to move a row by
    its old moments, and lets them fade, in steps that do not touch it; where
    every step touches every row, the two are the same. The bias correction is
    that of the step of training, not of how often a row was touched: a row
    that is touched for the first time in a late step moves by up to
    (1 - beta_1) / sqrt(1 - beta_2), about 3.2 rates, where Adam's first step
    moves by one rate.

    Both moments of a row are one row of one slot, m before v: a large table is
    read at places that no cache holds, and each of them costs far more than
    the numbers that lie there.

    Args:
        beta_1: Float, how much of the first moment is kept. Defaults to 0.9.
        beta_2: Float, how much of the second moment is kept. Defaults to
            0.999.
        epsilon: Float, added to the divisor. Defaults to 1e-7, as in Keras's
            Adam.

    Example:
    >>> LazyAdam().slot_shapes((1000, 8))
    {'moments': (1000, 16)}

    References:
        Kingma, Ba. Adam: A Method for Stochastic Optimization. ICLR 2015,
        Algorithm 1 and the rewriting at the end of section 2.
        `LazyAdam` of TensorFlow Addons and `torch.optim.SparseAdam`, whose
        moments and bias correction these are.
    """

    def __init__(
        self, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7
    ) -> None:
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def slot_shapes(self, table_shape: Shape) -> dict[str, Shape]:
        num_rows, width = table_shape
        return {"moments": (num_rows, 2 * width)}

    def update(
        self,
        rows: Tensor,
        slots: Mapping[str, Tensor],
        gradients: Tensor,
        learning_rate: Tensor,
        step: Tensor,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        m, v = ops.split(slots["moments"], 2, axis=-1)  # (touched, width) each
        m = m + (1 - self.beta_1) * (gradients - m)
        v = v + (1 - self.beta_2) * (ops.square(gradients) - v)
        beta_1, beta_2 = (
            ops.cast(beta, rows.dtype) for beta in (self.beta_1, self.beta_2)
        )
        correction = ops.sqrt(1 - beta_2**step) / (1 - beta_1**step)
        moved = learning_rate * correction * m / (ops.sqrt(v) + self.epsilon)
        return rows - moved, {"moments": ops.concatenate([m, v], axis=-1)}

    def get_config(self) -> Config:
        return {
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
        }
