from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import keras
from keras import ops

from keras_moe.optimizers._one_pass import OnePass
from keras_moe.optimizers._one_pass import made_by_keras

_Adam: Any = made_by_keras(keras.optimizers.Adam)


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

    With `lazy_experts`, the experts of a bank that have a gradient of zeros, as
    those without a row in the batch do, stay as they are in that step, weights
    and moments alike. It is another optimizer then: Adam goes on to move them
    by their old moments, which fade. The correction of bias is that of the step
    of training. It is for the results, and saves no time on processors: on
    PyTorch, to find the experts takes what leaving them out saves; on
    TensorFlow and JAX, where banks would be copied if experts were written one
    by one, a step takes longer.

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`
            or a function without arguments. Defaults to 0.001.
        beta_1: Float, how much of the first moment is kept. Defaults to 0.9.
        beta_2: Float, how much of the second moment is kept. Defaults to
            0.999.
        epsilon: Float, added to the divisor. Defaults to 1e-7.
        amsgrad: Boolean, whether to divide by the largest second moment so
            far. Defaults to `False`.
        lazy_experts: Boolean, whether experts without a gradient stay as they
            are, in banks whose weights are stacked (`MLPExperts`). Defaults to
            `False`.
        **kwargs: As in `keras.optimizers.Adam`: `weight_decay`, `clipnorm`,
            `clipvalue`, `global_clipnorm`, `use_ema`, `ema_momentum`,
            `ema_overwrite_frequency`, `loss_scale_factor`,
            `gradient_accumulation_steps`, `name`.

    Raises:
        ValueError: As `keras.optimizers.Adam`; or `lazy_experts` is given with
            `weight_decay`, which changes all weights.

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
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        lazy_experts: bool = False,
        **kwargs: Any,
    ) -> None:
        if lazy_experts and kwargs.get("weight_decay") is not None:
            raise ValueError(
                "`lazy_experts` must not be given with `weight_decay`, which "
                "changes the weights of all experts in each step. "
                f"Received: weight_decay={kwargs['weight_decay']}"
            )
        super().__init__(
            learning_rate, beta_1, beta_2, epsilon, amsgrad, **kwargs
        )
        self.lazy_experts = lazy_experts

    def update_step(
        self, gradient: Any, variable: Any, learning_rate: Any
    ) -> None:
        """Changes one weight, called by Keras on TensorFlow and JAX."""
        with self._idle_experts_kept([gradient], [variable]):
            super().update_step(gradient, variable, learning_rate)

    def _keras_step(
        self,
        gradients: Sequence[Any],
        variables: Sequence[Any],
        learning_rate: Any,
    ) -> None:
        with self._idle_experts_kept(gradients, variables):
            super()._keras_step(gradients, variables, learning_rate)

    @contextmanager
    def _idle_experts_kept(
        self, gradients: Sequence[Any], variables: Sequence[Any]
    ) -> Iterator[None]:
        """Undoes what is done inside to experts without a gradient."""
        kept = []
        for gradient, variable in zip(gradients, variables, strict=True):
            if self._is_lazy(variable):
                index = self._get_variable_index(variable)
                changed = [variable, *(slot[index] for slot in self._slots)]
                before = [
                    ops.copy(ops.convert_to_tensor(each)) for each in changed
                ]
                kept.append((gradient, changed, before))
        yield
        for gradient, changed, before in kept:
            axes = tuple(range(1, len(gradient.shape)))
            has_rows = ops.any(gradient != 0, axis=axes, keepdims=True)
            for variable, old in zip(changed, before, strict=True):
                new = ops.convert_to_tensor(variable)
                self.assign(variable, ops.where(has_rows, new, old))

    def _is_lazy(self, variable: Any) -> bool:
        if not self.lazy_experts:
            return False
        # That of Keras, where TensorFlow has its own.
        index = self._get_variable_index(variable)
        weight = self._trainable_variables[index]
        return getattr(weight, "counts_experts", False)

    @property
    def _slots(self) -> list[Any]:
        """The moments, each of all weights."""
        hats = [self._velocity_hats] if self.amsgrad else []
        return [self._momentums, self._velocities, *hats]

    @property
    def _has_kernel(self) -> bool:
        # That of TensorFlow with `amsgrad` is not known to XLA.
        return keras.backend.backend() == "torch" or not self.amsgrad

    def _tensorflow_step(
        self, gradient: Any, variable: Any, learning_rate: Any
    ) -> None:
        from keras_moe.optimizers import _tensorflow_kernels as kernels

        index = self._get_variable_index(variable)
        kernels.adam(
            variable,
            self._momentums[index],
            self._velocities[index],
            gradient,
            learning_rate,
            self.iterations + 1,
            self.beta_1,
            self.beta_2,
            self.epsilon,
        )

    def _torch_step(
        self,
        gradients: Sequence[Any],
        variables: Sequence[Any],
        learning_rate: Any,
    ) -> None:
        from keras_moe.optimizers import _torch_kernels as kernels

        changed: list[Sequence[Any]] = []
        for gradient, variable in zip(gradients, variables, strict=True):
            index = self._get_variable_index(variable)
            slots = [slot[index].value for slot in self._slots]
            changed.append([variable.value, gradient, *slots])
        if self.lazy_experts:
            is_bank = [self._is_lazy(variable) for variable in variables]
            changed = kernels.without_idle_experts(changed, is_bank)
        if not changed:
            return
        weights, gradients, *slots = zip(*changed, strict=True)
        kernels.adam(
            weights,
            slots,
            gradients,
            self._step_size(learning_rate),
            self.beta_1,
            self.beta_2,
            self.epsilon,
        )

    def _step_size(self, learning_rate: Any) -> Any:
        """The learning rate with the corrections of the moments' bias."""
        step = ops.cast(self.iterations + 1, "float32")
        kept_1, kept_2 = (
            ops.power(ops.cast(beta, "float32"), step)
            for beta in (self.beta_1, self.beta_2)
        )
        learning_rate = ops.cast(learning_rate, "float32")
        return learning_rate * ops.sqrt(1 - kept_2) / (1 - kept_1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "lazy_experts": self.lazy_experts}
