import math
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import keras
import numpy as np

from keras_moe.optimizers._one_pass import OnePass
from keras_moe.private_names import optimizer_class
from keras_moe.private_names import slots
from keras_moe.types import LearningRateLike
from keras_moe.types import Tensor

if TYPE_CHECKING:
    import torch

_Adagrad: Any = optimizer_class(keras.optimizers.Adagrad)


@keras.saving.register_keras_serializable(package="keras_moe")
class Adagrad(OnePass, _Adagrad):
    """Keras's Adagrad, with a step that is one pass over the weights.

    The same arguments, formula, variables and results, to rounding. Fused
    kernels of TensorFlow, and of PyTorch on processors, read and write each
    weight once. On JAX the compiled step is Keras's, in which XLA fuses the
    update and changes weights in place.

    Keras divides by `sqrt(accumulator + epsilon)` and the kernels by
    `sqrt(accumulator)` plus a number, which is chosen so that both differ by
    less than float32 rounds, as long as no accumulator is below
    `initial_accumulator_value`, which none comes to be. Where `epsilon` is more
    than 1.39e-6 times that value, there is no such number and the update is
    Keras's; so it is for weights of another type than float32 and with a
    sparse gradient. Clipping, weight decay, averages of weights, accumulated
    gradients and the scale of the loss are Keras's, around either.

    A checkpoint of `keras.optimizers.Adagrad` with the same arguments can be
    loaded into this one, and the other way round.

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`
            or a function without arguments. Defaults to 0.001.
        initial_accumulator_value: Float, what the sums of squared gradients
            begin with. Defaults to 0.1.
        epsilon: Float, added to the sums. Defaults to 1e-7.
        **kwargs: As in `keras.optimizers.Adagrad`: `weight_decay`, `clipnorm`,
            `clipvalue`, `global_clipnorm`, `use_ema`, `ema_momentum`,
            `ema_overwrite_frequency`, `loss_scale_factor`,
            `gradient_accumulation_steps`, `name`.

    Raises:
        ValueError: As `keras.optimizers.Adagrad`.

    Example:
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        >>> model.compile(keras_moe.optimizers.Adagrad(0.1), loss="mse")
        >>> _ = model.fit(np.ones((4, 3)), np.ones((4, 1)), verbose=0)
        >>> int(model.optimizer.iterations)
        1

    References:
        Duchi, Hazan, Singer. Adaptive Subgradient Methods for Online Learning
        and Stochastic Optimization. JMLR 2011, the diagonal form of Figure 1.
    """

    _torch_devices = ("cpu",)

    def __init__(
        self,
        learning_rate: LearningRateLike = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        **kwargs: object,
    ) -> None:
        super().__init__(
            learning_rate, initial_accumulator_value, epsilon, **kwargs
        )

    @property
    def _has_kernel(self) -> bool:
        # Half the square of what `_epsilon` has as a factor, see there.
        error = (math.sqrt(2) - 1) ** 2 / 2 * self.epsilon
        smallest = self.initial_accumulator_value
        return error <= smallest * float(np.finfo(np.float32).eps)

    @property
    def _epsilon(self) -> float:
        """The term to add to a root, in place of `epsilon` to its square.

        With a sum `a` at least `a_0`, and `x = sqrt(a_0 / a)`, the roots are
        in relation to each other

            sqrt(a + epsilon) / sqrt(a) = 1 + epsilon / (2 a_0) x^2 + ...
            (sqrt(a) + c epsilon / sqrt(a_0)) / sqrt(a) = 1 + c epsilon / a_0 x

        whose difference `epsilon / a_0 (x^2 / 2 - c x)` is largest for `x` in
        `(0, 1]` at 1 and at `c`, and there the same for `c = sqrt(2) - 1`.
        """
        if not self.epsilon:
            return 0.0
        root = math.sqrt(self.initial_accumulator_value)
        return (math.sqrt(2) - 1) * self.epsilon / root

    def _tensorflow_step(
        self, gradient: Tensor, variable: keras.Variable, learning_rate: Tensor
    ) -> None:
        from keras_moe.optimizers import _tensorflow_kernels as kernels

        (accumulator,) = slots(self, variable)
        kernels.adagrad(
            variable, accumulator, gradient, learning_rate, self._epsilon
        )

    def _torch_step(
        self,
        gradients: Sequence["torch.Tensor"],
        variables: Sequence[keras.Variable],
        learning_rate: "torch.Tensor",
    ) -> None:
        from keras_moe.optimizers import _torch_kernels as kernels

        kernels.adagrad(
            [variable.value for variable in variables],
            [slots(self, variable)[0].value for variable in variables],
            gradients,
            float(learning_rate),
            self._epsilon,
        )
