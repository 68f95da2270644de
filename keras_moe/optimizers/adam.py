from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import keras
from keras import ops

from keras_moe.optimizers._one_pass import OnePass
from keras_moe.private_names import optimizer_class
from keras_moe.private_names import slots
from keras_moe.types import LearningRateLike
from keras_moe.types import Tensor

if TYPE_CHECKING:
    import torch

_Adam: Any = optimizer_class(keras.optimizers.Adam)


@keras.saving.register_keras_serializable(package="keras_moe")
class Adam(OnePass, _Adam):
    """Keras's Adam, with a step that is one pass over the weights.

    The same arguments, formula, variables and results, to rounding. On
    TensorFlow and PyTorch, Keras reads and writes each weight about a dozen
    times in a step, and here fused kernels do so once. On JAX the compiled
    step is Keras's, in which XLA fuses the update and changes weights in place.
    Second moments are off Keras's by up to 3e-5 of their size at first on
    TensorFlow, whose kernel subtracts `beta_2` from 1 in float32; the length of
    the steps is corrected for that.

    Weights that the kernels do not know take Keras's update: those of another
    type than float32, with a sparse gradient, or, on TensorFlow, with
    `amsgrad`. Clipping, weight decay, averages of weights, accumulated
    gradients and the scale of the loss are Keras's, around either.

    A checkpoint of `keras.optimizers.Adam` can be loaded into this one, and the
    other way round.

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`
            or a function without arguments. Defaults to 0.001.
        beta_1: Float, how much of the first moment is kept. Defaults to 0.9.
        beta_2: Float, how much of the second moment is kept. Defaults to
            0.999.
        epsilon: Float, added to the divisor. Defaults to 1e-7.
        amsgrad: Boolean, whether to divide by the largest second moment so
            far. Defaults to `False`.
        **kwargs: As in `keras.optimizers.Adam`: `weight_decay`, `clipnorm`,
            `clipvalue`, `global_clipnorm`, `use_ema`, `ema_momentum`,
            `ema_overwrite_frequency`, `loss_scale_factor`,
            `gradient_accumulation_steps`, `name`.

    Raises:
        ValueError: As `keras.optimizers.Adam`.

    Example:
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        >>> model.compile(keras_moe.optimizers.Adam(0.01), loss="mse")
        >>> _ = model.fit(np.ones((4, 3)), np.ones((4, 1)), verbose=0)
        >>> int(model.optimizer.iterations)
        1

    References:
        Kingma, Ba. Adam: A Method for Stochastic Optimization. ICLR 2015,
        Algorithm 1 and the rewriting at the end of section 2.
        Reddi, Kale, Kumar. On the Convergence of Adam and Beyond. ICLR 2018,
        Algorithm 2 (`amsgrad`).
    """

    _torch_devices = ("cpu", "cuda")

    def __init__(
        self,
        learning_rate: LearningRateLike = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(
            learning_rate, beta_1, beta_2, epsilon, amsgrad, **kwargs
        )

    @property
    def _has_kernel(self) -> bool:
        # That of TensorFlow with `amsgrad` is not known to XLA.
        return keras.backend.backend() == "torch" or not self.amsgrad

    def _tensorflow_step(
        self, gradient: Tensor, variable: keras.Variable, learning_rate: Tensor
    ) -> None:
        from keras_moe.optimizers import _tensorflow_kernels as kernels

        momentum, velocity = slots(self, variable)
        kernels.adam(
            variable,
            momentum,
            velocity,
            gradient,
            learning_rate,
            self.iterations + 1,
            self.beta_1,
            self.beta_2,
            self.epsilon,
        )

    def _torch_step(
        self,
        gradients: Sequence["torch.Tensor"],
        variables: Sequence[keras.Variable],
        learning_rate: "torch.Tensor",
    ) -> None:
        from keras_moe.optimizers import _torch_kernels as kernels

        values = [
            [slot.value for slot in slots(self, variable)]
            for variable in variables
        ]
        kernels.adam(
            [variable.value for variable in variables],
            list(zip(*values, strict=True)),
            gradients,
            self._step_size(learning_rate),
            self.beta_1,
            self.beta_2,
            self.epsilon,
        )

    def _step_size(self, learning_rate: Tensor) -> Tensor:
        """The learning rate with the corrections of the moments' bias."""
        step = ops.cast(self.iterations + 1, "float32")
        kept_1, kept_2 = (
            ops.power(ops.cast(beta, "float32"), step)
            for beta in (self.beta_1, self.beta_2)
        )
        learning_rate = ops.cast(learning_rate, "float32")
        return learning_rate * ops.sqrt(1 - kept_2) / (1 - kept_1)
