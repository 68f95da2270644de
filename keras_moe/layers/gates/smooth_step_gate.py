from typing import Any

import keras

from keras_moe.checks import check_integer
from keras_moe.checks import check_non_negative
from keras_moe.checks import check_positive
from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.initialization import Initializer
from keras_moe.ops.entropy import entropy
from keras_moe.types import Config
from keras_moe.types import InitializerLike
from keras_moe.types import RegularizerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor


class SmoothStepGate(Gate):
    """Base class of the gates whose binary decisions are smooth steps.

    Such a gate has `k` independent selectors. Each spreads probability over
    the experts and, as its decisions leave the fractional region of the step
    while it trains, comes to choose one. The entropy of the selectors, added
    to the loss, is what drives them there.

    Attributes:
        gamma: Width of the fractional region.
        entropy_weight: Weight of the selectors' entropy in the loss.

    Args:
        num_experts: Integer `n >= 2`.
        k: Integer in `[1, n]`, the number of selectors.
        gamma: Number above 0, defaults to 1.
        entropy_weight: Number `>= 0`, defaults to 0.
        use_bias: Boolean, defaults to `True`.
        kernel_spread: Number above 0, or `None` (default). The kernels of the
            decisions are drawn from U(-γ kernel_spread, γ kernel_spread), and
            their biases as ever: where it is wide, examples begin on both
            sides of a decision, and the entropy cannot push all of them to
            the same one. Unless given, kernels are drawn as biases are.
        **kwargs: Those of `Gate`.
    """

    balance_loss = "importance_loss_weight"
    k: int

    def __init__(
        self,
        num_experts: int,
        k: int,
        gamma: float = 1.0,
        entropy_weight: float = 0.0,
        use_bias: bool = True,
        kernel_spread: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_experts, k=check_integer("k", k, 1), **kwargs)
        self.gamma = check_positive("gamma", gamma)
        self.entropy_weight = check_non_negative(
            "entropy_weight", entropy_weight
        )
        self.use_bias = use_bias
        self.kernel_spread = (
            None
            if kernel_spread is None
            else check_positive("kernel_spread", kernel_spread)
        )

    @classmethod
    def first_options(cls, k: int) -> Config:
        """Returns arguments with which the gate comes to about `k` experts.

        They are those of a row, not the same for all rows:
        `benchmarks/README.md`, "Defaults that route by the example", has the
        trainings.
        """
        return {"gamma": 0.03, "entropy_weight": 0.001, "kernel_spread": 0.3}

    def _decision_initializer(
        self, initializer: InitializerLike | None
    ) -> Initializer:
        """The initializer of the decisions' weights.

        By default it draws from U(-γ/100, γ/100), well inside the fractional
        region: outside it a decision has no gradient.
        """
        bound = self.gamma / 100
        return keras.initializers.get(initializer) or (
            keras.initializers.RandomUniform(-bound, bound)
        )

    def _kernel_initializer(self, initializer: Initializer) -> Initializer:
        """The initializer of the decisions' kernels, given that of biases."""
        if self.kernel_spread is None:
            return initializer
        bound = self.gamma * self.kernel_spread
        return keras.initializers.RandomUniform(-bound, bound)

    def _add_affine(
        self,
        name: str,
        input_dim: int | None,
        shape: Shape,
        initializer: Initializer,
        regularizer: RegularizerLike,
        kernel_initializer: Initializer | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Adds a kernel `(input_dim, *shape)` and a bias `shape`, if any."""
        kernel = self.add_independent_weight(
            f"{name}_kernel",
            (input_dim, *shape),
            kernel_initializer or initializer,
            regularizer,
        )
        if not self.use_bias:
            return kernel, None
        bias = self.add_independent_weight(
            f"{name}_bias", shape, initializer, regularizer
        )
        return kernel, bias

    def _add_entropy_loss(
        self, selectors: Tensor, training: bool | None, mask: Tensor | None
    ) -> None:
        """Adds the entropy of selectors `(..., k, n)`, while training."""
        if self.entropy_weight:
            self.add_training_loss(
                self.entropy_weight * entropy(selectors, axis=(-2, -1)),
                training,
                mask,
            )

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "k": self.k,
            "gamma": self.gamma,
            "entropy_weight": self.entropy_weight,
            "use_bias": self.use_bias,
            "kernel_spread": self.kernel_spread,
        }
