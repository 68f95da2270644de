from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_integer
from keras_moe.checks import check_non_negative
from keras_moe.checks import check_positive
from keras_moe.layers.gates.gate import Gate
from keras_moe.ops.sampling import gumbel_noise
from keras_moe.types import Config
from keras_moe.types import InitializerLike
from keras_moe.types import RegularizerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor

# Where annealing ends: the published trainings do not get there, and samples
# are 0 or 1 long before. Dividing by less would overflow in the end.
LOWEST_TEMPERATURE = 1e-5


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
        num_updates: Scalar integer, the training calls so far; only where the
            temperature is annealed.
        k: `None`: the gate does not bound the experts per example.

    Args:
        num_experts: Integer `n >= 2`, the number of experts.
        temperature: Number `τ > 0` for a constant temperature, or `None`
            (default) for one that is annealed. The smaller, the closer the
            samples are to 0 and 1.
        sparsity_weight: Number `>= 0`, defaults to 0. Weight of `Σ log θ_i`
            in the loss; published searches use 1e-6 to 1,000. The penalty
            has no lower bound.
        initial_temperature: Number `τ_0 > 0`, defaults to 5. Like the next
            two it has no effect on a constant temperature.
        temperature_decay: Number `d` in `(0, 1]`, defaults to 0.965.
        decay_steps: Integer `s >= 1`, the training calls, one per step, from
            one decay to the next. Defaults to 500; the steps of an epoch for
            a decay per epoch.
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
        ValueError: If `num_experts` is outside `[2, 2^31)`, a temperature is
            not above 0, `sparsity_weight < 0`, `temperature_decay` is outside
            `(0, 1]` or `decay_steps < 1`.

    Example:
        >>> gate = GumbelSoftmaxGate(num_experts=4)
        >>> tuple(gate(np.ones((3, 2))).shape)
        (4,)
        >>> float(keras.ops.convert_to_numpy(gate.expected_experts()))
        2.0
        >>> float(keras.ops.convert_to_numpy(gate.current_temperature()))
        5.0

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture
        of Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        appendix D.
        Sun et al., AdaShare: Learning What To Share For Efficient Deep
        Multi-Task Learning, NeurIPS 2020, eq. 1 to 3. The schedule is that of
        the authors' code, github.com/sunxm2357/AdaShare (`init_temp: 5`,
        `decay_temp: 0.965`, no lowest temperature): a decay after each turn
        of the weights and the policy, which is 400 + 100 steps on DomainNet
        and Tiny-Taskonomy and one pass over the smaller NYU v2 and
        CityScapes.
    """

    dense_in_training = True
    sparse_at = 4  # DSelect-k, appendix D.

    def __init__(
        self,
        num_experts: int,
        temperature: float | None = None,
        sparsity_weight: float = 0.0,
        initial_temperature: float = 5.0,
        temperature_decay: float = 0.965,
        decay_steps: int = 500,
        weight_initializer: InitializerLike = "random_uniform",
        selector_initializer: InitializerLike = "zeros",
        weight_regularizer: RegularizerLike = None,
        selector_regularizer: RegularizerLike = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_experts, k=None, static=True, **kwargs)
        self.temperature = (
            None
            if temperature is None
            else check_positive("temperature", temperature)
        )
        self.initial_temperature = check_positive(
            "initial_temperature", initial_temperature
        )
        self.temperature_decay = check_positive(
            "temperature_decay", temperature_decay
        )
        if self.temperature_decay > 1:
            raise ValueError(
                "`temperature_decay` must be a number above 0, at most 1. "
                f"Received: temperature_decay={temperature_decay!r}"
            )
        self.decay_steps = check_integer("decay_steps", decay_steps, 1)
        self.sparsity_weight = check_non_negative(
            "sparsity_weight", sparsity_weight
        )
        self.weight_initializer = keras.initializers.get(weight_initializer)
        self.selector_initializer = keras.initializers.get(selector_initializer)
        self.weight_regularizer = keras.regularizers.get(weight_regularizer)
        self.selector_regularizer = keras.regularizers.get(selector_regularizer)
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    @classmethod
    def first_options(cls, k: int) -> Config:
        """Returns the annealed temperature."""
        return {"temperature": None}

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
        if self.temperature is None:
            self.num_updates = self.add_weight(
                name="num_updates",
                shape=(),
                dtype="int",
                initializer="zeros",
                trainable=False,
            )

    def current_temperature(self) -> Tensor:
        """Returns `τ` of the next training call, a scalar."""
        if self.temperature is not None:
            return ops.convert_to_tensor(self.temperature, "float32")
        decays = ops.cast(
            ops.floor_divide(self.num_updates, self.decay_steps), "float32"
        )
        annealed = self.initial_temperature * ops.power(
            self.temperature_decay, decays
        )
        return ops.maximum(annealed, LOWEST_TEMPERATURE)

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
        temperature = self.current_temperature()
        if self.temperature is None:
            self.num_updates.assign_add(1)
        return ops.sigmoid(
            (self.selector_logits + noise[0] - noise[1]) / temperature
        )

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "temperature": self.temperature,
            "sparsity_weight": self.sparsity_weight,
            "initial_temperature": self.initial_temperature,
            "temperature_decay": self.temperature_decay,
            "decay_steps": self.decay_steps,
        }
