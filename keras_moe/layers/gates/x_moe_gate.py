import math
from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_positive
from keras_moe.checks import check_size
from keras_moe.layers.gates.scored_gate import ScoredGate
from keras_moe.ops._affine import affine
from keras_moe.ops._largest import largest
from keras_moe.types import Config
from keras_moe.types import InitializerLike
from keras_moe.types import RegularizerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor

SMALLEST_TEMPERATURE = 0.01
# Below this squared length a vector has no direction.
EPSILON = 1e-12
# Above it, squares may not fit into float32.
LARGEST_ENTRY = 1e16


@keras.saving.register_keras_serializable(package="keras_moe")
class XMoEGate(ScoredGate):
    """Selects the `k` experts whose embeddings point where the example does.

    The example is projected to `d'` dimensions, where each expert has an
    embedding `e_i`. With the cosines of the angles between them,

        p = softmax(cos(xP + c, e_i) / τ),

    and the weights are the `k` largest entries of `p`, the other experts
    have weight 0. Exactly `k` entries are kept: ties go to the lower index.
    The temperature `τ` is trained, through its logarithm.

    The weights are not renormalized: they sum to at most 1, and train the
    gate even with `k = 1`. In one dimension a cosine is 1 or -1, so that
    only `τ` is trained: choose `projection_dim >= 2` for fewer than four
    experts.

    The temperature, its lowest value of 0.01 and the bias `c` are those of
    Tutel's cosine router (github.com/microsoft/tutel), whose projection has 256
    dimensions. As the MOESART paper writes the gate down, it has no bias,
    and `n / 2` dimensions.

    Attributes:
        projection_kernel: `P`, `(p, d')`.
        projection_bias: `c`, `(d',)`, or `None` with `use_bias=False`.
        expert_embeddings: The columns `e_i`, `(d', n)`.
        log_temperature: `log τ`, a scalar. `τ` is never below 0.01.
        k: The number of experts per example.

    Args:
        num_experts: Integer `n >= 2`, the number of experts.
        k: Integer in `[1, n]`, the number of experts to select.
        projection_dim: Integer `d' >= 1`, or `None` (default) for
            `max(1, n // 2)`.
        temperature: Number, at least 0.01, defaults to 0.5. The initial `τ`.
        use_bias: Boolean, defaults to `True`.
        projection_initializer: Defaults to `"glorot_uniform"`.
        bias_initializer: Of `projection_bias`, defaults to `"zeros"`.
        embeddings_initializer: Defaults to `"random_normal"`: directions
            that are all equally likely.
        projection_regularizer: Optional regularizer of `projection_kernel`.
        bias_regularizer: Optional regularizer of `projection_bias`.
        embeddings_regularizer: Optional regularizer of `expert_embeddings`.
        **kwargs: `importance_loss_weight`, `load_loss_weight`,
            `load_balance_loss_weight` and `z_loss_weight` of the auxiliary
            losses; `balance` and `balance_rate`, as in `ScoredGate`; `seed` of
            the initializers; `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., p)`.
        training: Boolean. Losses are added only when true.

    Returns:
        Float32 tensor `(..., n)`, not negative, with a sum of at most 1.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `num_experts` is outside `[2, 2^31)`, `k` is outside
            `[1, num_experts]`, `projection_dim` outside `[1, 2^31)` or
            `temperature < 0.01`.

    Example:
        >>> gate = XMoEGate(num_experts=6, k=2)
        >>> weights = gate(np.ones((3, 4)))
        >>> [int(n) for n in keras.ops.sum(weights > 0, axis=-1)]
        [2, 2, 2]

    References:
        Chi et al., On the Representation Collapse of Sparse Mixture of
        Experts, NeurIPS 2022, section 3.2.
    """

    separable = True

    def __init__(
        self,
        num_experts: int,
        k: int,
        projection_dim: int | None = None,
        temperature: float = 0.5,
        use_bias: bool = True,
        projection_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        embeddings_initializer: InitializerLike = "random_normal",
        projection_regularizer: RegularizerLike = None,
        bias_regularizer: RegularizerLike = None,
        embeddings_regularizer: RegularizerLike = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_experts, k=k, static=False, **kwargs)
        if projection_dim is None:
            projection_dim = max(1, self.num_experts // 2)
        self.projection_dim = check_size("projection_dim", projection_dim)
        self.temperature = check_positive("temperature", temperature)
        if self.temperature < SMALLEST_TEMPERATURE:
            raise ValueError(
                f"`temperature` must be at least {SMALLEST_TEMPERATURE}. "
                f"Received: temperature={temperature}"
            )
        self.use_bias = use_bias
        self.projection_initializer = keras.initializers.get(
            projection_initializer
        )
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.embeddings_initializer = keras.initializers.get(
            embeddings_initializer
        )
        self.projection_regularizer = keras.regularizers.get(
            projection_regularizer
        )
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.embeddings_regularizer = keras.regularizers.get(
            embeddings_regularizer
        )
        self.projection_bias = None

    def build(self, input_shape: Shape) -> None:
        self.projection_kernel = self.add_independent_weight(
            "projection_kernel",
            (input_shape[-1], self.projection_dim),
            self.projection_initializer,
            self.projection_regularizer,
        )
        if self.use_bias:
            self.projection_bias = self.add_independent_weight(
                "projection_bias",
                (self.projection_dim,),
                self.bias_initializer,
                self.bias_regularizer,
            )
        self.expert_embeddings = self.add_independent_weight(
            "expert_embeddings",
            (self.projection_dim, self.num_experts),
            self.embeddings_initializer,
            self.embeddings_regularizer,
        )
        self.log_temperature = self.add_independent_weight(
            "log_temperature",
            (),
            keras.initializers.Constant(math.log(self.temperature)),
        )
        super().build(input_shape)

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        projected = affine(inputs, self.projection_kernel, self.projection_bias)
        cosines = affine(
            _unit(projected, axis=-1), _unit(self.expert_embeddings, axis=0)
        )
        log_temperature = ops.maximum(
            self.log_temperature, math.log(SMALLEST_TEMPERATURE)
        )
        logits = cosines / ops.exp(log_temperature)
        self.add_router_losses(
            ops.softmax(logits, axis=-1), logits, training, mask
        )
        return self.chosen_probabilities(logits, training, mask)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "projection_dim": self.projection_dim,
            "temperature": self.temperature,
            "use_bias": self.use_bias,
        }


def _unit(x: Tensor, axis: int) -> Tensor:
    """Vectors of length 1; unlike `ops.normalize`, with a gradient at 0."""
    # Divided by 1, as nearly all are, a vector is what it was. A factor does
    # not change its direction, nor the direction's gradient.
    # Without an initial value Keras refuses empty batches.
    entry = ops.stop_gradient(largest(ops.abs(x), 0.0, axis, keepdims=True))
    x = x / ops.maximum(entry / LARGEST_ENTRY, 1.0)
    squares = ops.sum(ops.square(x), axis=axis, keepdims=True)
    return x * ops.rsqrt(ops.maximum(squares, EPSILON))
