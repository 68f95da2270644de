"""DSelect-k's gate with softmaxes for its selectors: the paper's ablations."""

from math import log
from typing import Any

import keras
from keras import ops

from keras_moe.layers import Gate

# What the temperature is annealed to (appendix D.4).
LAST_TEMPERATURE = 1e-16
# As in DSelect-k's code, keeps the logarithm of the entropy finite.
EPSILON = 1e-6


@keras.saving.register_keras_serializable(package="benchmarks")
class SoftmaxSelectorGate(Gate):
    """Selects by `k` softmaxes whose entropy is in the loss.

    Appendix C.1 of DSelect-k replaces its selectors, which are products of
    binary decisions, by softmaxes over all experts:

        g = Σ_j softmax(x·u)_j softmax(x·v_j / τ),  τ = 1.

    "Ablation (Entropy)" adds the entropies of `softmax(x·v_j)` to the loss.
    The paper's gate is static; it is one for each task where `x` is the
    one-hot number of a task, as there is no bias.

    Attributes:
        selector_kernel: `v`, `(p, k, n)`.
        weight_kernel: `u`, `(p, k)`.
        k: The number of selectors.

    Args:
        num_experts: Integer `n >= 2`, the number of experts.
        k: Integer in `[1, n]`.
        entropy_weight: Number `>= 0`, defaults to 0. Weight of the entropies,
            summed over the selectors, a mean over the batch.
        selector_initializer: Defaults to U(-0.05, 0.05).
        weight_initializer: Defaults to U(-0.05, 0.05).
        **kwargs: Those of `Gate`.

    Call arguments:
        inputs: Tensor `(..., p)`.
        training: Boolean. The entropy is added only when true.

    Returns:
        Float32 tensor `(..., n)`, not negative, with a sum of 1.

    Example:
        >>> gate = SoftmaxSelectorGate(num_experts=8, k=2)
        >>> tuple(gate(np.eye(3)).shape)
        (3, 8)

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture
        of Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        appendices C.1 and D.4.
    """

    on_simplex = True
    k: int

    def __init__(
        self,
        num_experts: int,
        k: int,
        entropy_weight: float = 0.0,
        selector_initializer: Any = "random_uniform",
        weight_initializer: Any = "random_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(num_experts, k=k, **kwargs)
        if entropy_weight < 0:
            raise ValueError(
                "`entropy_weight` must be at least 0. "
                f"Received: entropy_weight={entropy_weight}"
            )
        self.entropy_weight = entropy_weight
        self.selector_initializer = keras.initializers.get(selector_initializer)
        self.weight_initializer = keras.initializers.get(weight_initializer)

    def build(self, input_shape: Any) -> None:
        p = input_shape[-1]
        self.selector_kernel = self.add_independent_weight(
            "selector_kernel",
            (p, self.k, self.num_experts),
            self.selector_initializer,
        )
        self.weight_kernel = self.add_independent_weight(
            "weight_kernel", (p, self.k), self.weight_initializer
        )

    def temperature(self) -> Any:
        """`τ` of the selectors at this moment."""
        return 1.0

    def compute_weights(
        self, inputs: Any, training: bool | None, mask: Any
    ) -> Any:
        # (..., p) with (p, k, n) to (..., k, n).
        logits = ops.tensordot(inputs, self.selector_kernel, axes=1)
        # Of 1e15, as low temperatures make them, XLA does not always compute
        # the same difference to the largest twice.
        largest = ops.max(logits, axis=-1, keepdims=True)
        logits = (logits - ops.stop_gradient(largest)) / self.temperature()
        selectors = ops.softmax(logits, axis=-1)
        if self.entropy_weight:
            entropies = -selectors * ops.log(selectors + EPSILON)
            self.add_training_loss(
                self.entropy_weight * ops.sum(entropies, axis=(-2, -1)),
                training,
                mask,
            )
        weights = ops.softmax(ops.matmul(inputs, self.weight_kernel), axis=-1)
        return ops.sum(weights[..., None] * selectors, axis=-2)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "k": self.k,
            "entropy_weight": self.entropy_weight,
        }


@keras.saving.register_keras_serializable(package="benchmarks")
class AnnealedSoftmaxSelectorGate(SoftmaxSelectorGate):
    """The same with a temperature that falls: "Ablation (Annealing)".

    From `first_temperature` in the first training call to 1e-16 in call
    `num_steps`, evenly on a logarithmic scale. Outside of training the
    selectors have the temperature of the next step.

    Attributes:
        num_updates: Scalar integer, the training calls so far.

    Args:
        num_experts: Integer `n >= 2`, the number of experts.
        k: Integer in `[1, n]`.
        first_temperature: Number above 0; the paper searches 1e-6 to 1e-2.
        num_steps: Integer `>= 2`, the steps of the training.
        **kwargs: Those of `SoftmaxSelectorGate`.
    """

    def __init__(
        self,
        num_experts: int,
        k: int,
        first_temperature: float,
        num_steps: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_experts, k, **kwargs)
        if first_temperature <= 0:
            raise ValueError(
                "`first_temperature` must be above 0. "
                f"Received: first_temperature={first_temperature}"
            )
        if num_steps < 2:
            raise ValueError(
                "`num_steps` must be at least 2. "
                f"Received: num_steps={num_steps}"
            )
        self.first_temperature = first_temperature
        self.num_steps = num_steps

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        self.num_updates = self.add_weight(
            name="num_updates",
            shape=(),
            dtype="int",
            initializer="zeros",
            trainable=False,
        )

    def temperature(self) -> Any:
        done = ops.cast(self.num_updates, "float32") / (self.num_steps - 1)
        first = log(self.first_temperature)
        last = log(LAST_TEMPERATURE)
        return ops.exp(first + (last - first) * ops.minimum(done, 1.0))

    def compute_weights(
        self, inputs: Any, training: bool | None, mask: Any
    ) -> Any:
        weights = super().compute_weights(inputs, training, mask)
        if training:
            self.num_updates.assign_add(1)
        return weights

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "first_temperature": self.first_temperature,
            "num_steps": self.num_steps,
        }
