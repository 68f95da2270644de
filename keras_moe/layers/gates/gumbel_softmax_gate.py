from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_non_negative
from keras_moe.checks import check_positive
from keras_moe.layers.gates.gate import Gate
from keras_moe.ops.sampling import gumbel_noise
from keras_moe.types import Config
from keras_moe.types import InitializerLike
from keras_moe.types import RegularizerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class GumbelSoftmaxGate(Gate):
    """Switches each expert on or off with a learned probability.

    One weighting serves all examples: `g_i = softmax(α)_i U_i`, where `U_i`
    is a Bernoulli variable with the parameter `θ_i = sigmoid(β_i)`. While
    training it is relaxed to a binary Gumbel-softmax sample

        U_i = sigmoid((β_i + G_i - G'_i) / τ)

    with standard Gumbel noise `G` and `G'`, drawn once per call; at inference
    it is 1 where `θ_i >= 1/2` and 0 elsewhere.

    The weights do not lie on the simplex: they sum to at most 1, and to 0
    where every expert is off. The number of experts cannot be set: a larger
    `sparsity_weight` leaves fewer, `expected_experts` tells how many.

    Attributes:
        weight_logits: `α`, `(n,)`.
        selector_logits: `β`, `(n,)`.
        k: `None`: the gate does not bound the experts per example.

    Args:
        num_experts: Integer `n >= 2`, the number of experts.
        temperature: Number `τ > 0`, defaults to 1. The smaller, the closer
            the samples are to 0 and 1.
        sparsity_weight: Number `>= 0`, defaults to 0. Weight of `Σ log θ_i`
            in the loss; published searches use 1e-6 to 1,000. The penalty
            has no lower bound.
        weight_initializer: Initializer of `weight_logits`, defaults to
            U(-0.05, 0.05).
        selector_initializer: Initializer of `selector_logits`, defaults to
            `"zeros"`: every expert is on half of the time.
        weight_regularizer: Optional regularizer of `weight_logits`.
        selector_regularizer: Optional regularizer of `selector_logits`.
        **kwargs: `importance_loss_weight`, `load_loss_weight`,
            `load_balance_loss_weight` and `z_loss_weight` of the auxiliary
            losses; `seed` of initializers and noise; `name`, `trainable`,
            `dtype`.

    Call arguments:
        inputs: Tensor `(..., p)`, ignored.
        training: Boolean. Experts are sampled, and losses added, only when
            true.

    Returns:
        Float32 tensor `(n,)`, not negative, with a sum of at most 1.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `num_experts < 2`, `temperature <= 0` or
            `sparsity_weight < 0`.

    Example:
        >>> gate = GumbelSoftmaxGate(num_experts=4)
        >>> tuple(gate(np.ones((3, 2))).shape)
        (4,)
        >>> float(keras.ops.convert_to_numpy(gate.expected_experts()))
        2.0

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture
        of Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        appendix D.
        Sun et al., AdaShare: Learning What To Share For Efficient Deep
        Multi-Task Learning, NeurIPS 2020, eq. 1 to 3.
    """

    def __init__(
        self,
        num_experts: int,
        temperature: float = 1.0,
        sparsity_weight: float = 0.0,
        weight_initializer: InitializerLike = "random_uniform",
        selector_initializer: InitializerLike = "zeros",
        weight_regularizer: RegularizerLike = None,
        selector_regularizer: RegularizerLike = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_experts, k=None, static=True, **kwargs)
        self.temperature = check_positive("temperature", temperature)
        self.sparsity_weight = check_non_negative(
            "sparsity_weight", sparsity_weight
        )
        self.weight_initializer = keras.initializers.get(weight_initializer)
        self.selector_initializer = keras.initializers.get(selector_initializer)
        self.weight_regularizer = keras.regularizers.get(weight_regularizer)
        self.selector_regularizer = keras.regularizers.get(selector_regularizer)
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    def build(self, input_shape: Shape) -> None:
        self.weight_logits = self.add_independent_weight(
            "weight_logits",
            (self.num_experts,),
            self.weight_initializer,
            self.weight_regularizer,
        )
        self.selector_logits = self.add_independent_weight(
            "selector_logits",
            (self.num_experts,),
            self.selector_initializer,
            self.selector_regularizer,
        )

    def expected_experts(self) -> Tensor:
        """Returns the expected number of experts that are on, `Σ θ_i`."""
        return ops.sum(ops.sigmoid(self.selector_logits))

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        selected = self._select(training)
        weights = ops.softmax(self.weight_logits, axis=-1) * selected
        log_theta = ops.log_sigmoid(self.selector_logits)
        if self.sparsity_weight:
            self.add_training_loss(
                self.sparsity_weight * ops.sum(log_theta, axis=-1), training
            )
        self.add_router_losses(
            weights, self.weight_logits + log_theta, training
        )
        return weights

    def _select(self, training: bool | None) -> Tensor:
        """The experts that are on, `(n,)`: 0 or 1, while training between."""
        if not training:
            return ops.cast(self.selector_logits >= 0, "float32")
        noise = gumbel_noise((2, self.num_experts), self.seed_generator)
        return ops.sigmoid(
            (self.selector_logits + noise[0] - noise[1]) / self.temperature
        )

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "temperature": self.temperature,
            "sparsity_weight": self.sparsity_weight,
        }
