import keras
from keras import ops

from keras_moe.checks import check_choice
from keras_moe.checks import check_non_negative
from keras_moe.layers.gates.smooth_step_gate import SmoothStepGate
from keras_moe.ops._affine import affine
from keras_moe.ops.binary_tree import code_probabilities
from keras_moe.ops.smooth_step import smooth_step
from keras_moe.types import Config
from keras_moe.types import InitializerLike
from keras_moe.types import RegularizerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor

# Keeps the penalty finite where no expert can be reached, as published.
EPSILON = 1e-6


@keras.saving.register_keras_serializable(package="keras_moe")
class DSelectKGate(SmoothStepGate):
    """Selects at most `k` experts with `k` differentiable binary codes.

    Selector `j` has `m = ceil(log2 n)` bits `s = h(x·w)`, `h` being
    `smooth_step`, each the probability of a 1 in an expert's number, most
    significant bit first. That makes a probability `r_i` of each expert `i`,
    the product over the bits of its number of `s` or `1 - s`, and

        g = Σ_j softmax(x·u)_j r^(j).

    At first every expert has weight. As the bits become binary, sooner with a
    larger `entropy_weight`, each selector chooses a single expert. A static
    gate learns the arguments of `h` and of the softmax directly.

    Both losses of the gate are means over the examples, so that neither
    depends on the batch size. The paper's objective and its authors' code sum
    them over the examples instead: a published weight, times the batch size,
    is the weight here. A static gate has one loss, not one per example, and
    takes the published weight as it is. The code of the COMET paper averages
    the entropy, and sums the penalty of `unreachable`.

    Attributes:
        selector_kernel: `(p, k, m)`. A static gate has none.
        selector_bias: `(k, m)`, or `None` with `use_bias=False`.
        weight_kernel: `(p, k)`. A static gate has none.
        weight_bias: `(k,)`, or `None` with `use_bias=False`.
        selector_logits: `(k, m)`, of a static gate.
        weight_logits: `(k,)`, of a static gate.
        k: The bound on the experts per example, once the bits are certain.

    Args:
        num_experts: Integer `n >= 2`, the number of experts.
        k: Integer in `[1, n]`, the number of selectors.
        gamma: Number above 0, defaults to 1. Width of the region in which a
            bit is not certain; published searches use 0.1 to 15.
        entropy_weight: Number `>= 0`, defaults to 0. Weight of the entropies
            of the selectors' probabilities, summed over the selectors, a mean
            over the batch, in the loss; published searches use 0.001 to 10,
            times the batch size where a sum over it was meant.
        static: Boolean, defaults to `False`. Whether one weighting serves
            all examples.
        unreachable: Treatment of the codes from `n` to `2^m - 1`, to
            which no expert belongs, where `n` is not a power of 2. `"fold"`
            (default) gives code `c` to expert `c mod n`: the weights always
            sum to 1. `"penalty"` leaves them without expert: the weights
            may sum to less, and `Σ_j (1 / (1e-6 + Σ_i r_i) - 1)` in the loss
            pushes them back.
        unreachable_weight: Number `>= 0`, defaults to 1. Weight of that
            penalty, a mean over the batch; the batch size for the published
            one, which has the weight 1 in a sum.
        use_bias: Boolean, defaults to `True`. Has no effect on a static
            gate.
        selector_initializer: Initializer of the selectors' weights, defaults
            to U(-γ/100, γ/100).
        weight_initializer: Initializer of the softmax's weights, defaults to
            U(-0.05, 0.05).
        selector_regularizer: Optional regularizer of the selectors' weights.
        weight_regularizer: Optional regularizer of the softmax's weights.
        kernel_spread: Number above 0, or `None` (default). Draws the selectors'
            kernel from U(-γ kernel_spread, γ kernel_spread), whatever
            `selector_initializer` says: with 0.3, examples begin on both sides
            of a selector's decisions. Has no effect on a static gate.
        **kwargs: `seed` of the initializers, `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., p)`.
        training: Boolean. Entropy and penalty are added only when true.

    Returns:
        Float32 tensor `(..., n)`, or `(n,)` for a static gate.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `num_experts` is outside `[2, 2^31)`, `k` is outside
            `[1, num_experts]`, `gamma <= 0`, a loss weight is below 0, or
            `unreachable` is unknown.

    Example:
        >>> gate = DSelectKGate(num_experts=9, k=2, gamma=10.0)
        >>> tuple(gate(np.ones((3, 4))).shape)
        (3, 9)

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture
        of Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        sections 3.1 (static) and 3.2, appendix B.2 (`unreachable`).
        Code: github.com/google-research/google-research/tree/master/
        dselect_k_moe (sums), github.com/mazumder-lab/COMET (a mean).
    """

    def __init__(
        self,
        num_experts: int,
        k: int,
        gamma: float = 1.0,
        entropy_weight: float = 0.0,
        static: bool = False,
        unreachable: str = "fold",
        unreachable_weight: float = 1.0,
        use_bias: bool = True,
        selector_initializer: InitializerLike | None = None,
        weight_initializer: InitializerLike = "random_uniform",
        selector_regularizer: RegularizerLike = None,
        weight_regularizer: RegularizerLike = None,
        kernel_spread: float | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(
            num_experts,
            k,
            gamma=gamma,
            entropy_weight=entropy_weight,
            use_bias=use_bias,
            kernel_spread=kernel_spread,
            static=static,
            **kwargs,
        )
        self.unreachable = check_choice(
            "unreachable", unreachable, ("fold", "penalty")
        )
        # Without the codes of no expert the selectors sum to less than 1.
        self.on_simplex = self.unreachable == "fold"
        self.unreachable_weight = check_non_negative(
            "unreachable_weight", unreachable_weight
        )
        self.selector_initializer = self._decision_initializer(
            selector_initializer
        )
        self.weight_initializer = keras.initializers.get(weight_initializer)
        self.selector_regularizer = keras.regularizers.get(selector_regularizer)
        self.weight_regularizer = keras.regularizers.get(weight_regularizer)

    def build(self, input_shape: Shape) -> None:
        selector = self.selector_initializer, self.selector_regularizer
        weight = self.weight_initializer, self.weight_regularizer
        selector_shape = (self.k, (self.num_experts - 1).bit_length())
        weight_shape = (self.k,)
        if self.static:
            self.selector_logits = self.add_independent_weight(
                "selector_logits", selector_shape, *selector
            )
            self.weight_logits = self.add_independent_weight(
                "weight_logits", weight_shape, *weight
            )
            return
        self.selector_kernel, self.selector_bias = self._add_affine(
            "selector",
            input_shape[-1],
            selector_shape,
            *selector,
            self._kernel_initializer(self.selector_initializer),
        )
        self.weight_kernel, self.weight_bias = self._add_affine(
            "weight", input_shape[-1], weight_shape, *weight
        )

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        selectors = self.compute_selectors(inputs)
        if self._has_unreachable_codes:
            self._add_unreachable_loss(selectors, training, mask)
        self._add_entropy_loss(selectors, training, mask)
        # Keras warns of a softmax over one entry, which k = 1 asks for.
        weights = self._compute_weight_logits(inputs)  # (..., k)
        weights = ops.exp(ops.log_softmax(weights, axis=-1))
        weights = ops.sum(weights[..., None] * selectors, axis=-2)
        self.add_router_losses(
            weights, ops.log(weights + EPSILON), training, mask
        )
        return weights

    def compute_selectors(self, inputs: Tensor) -> Tensor:
        """Returns each selector's probabilities of the experts, `(..., k, n)`.

        They are 0 and 1 once the bits are: the paper's `S(Z)` is binary.
        """
        logits = self._compute_selector_logits(inputs)
        codes = code_probabilities(smooth_step(logits, self.gamma))
        return self._assign_codes(codes)

    def _compute_selector_logits(self, inputs: Tensor) -> Tensor:
        if self.static:
            return self.selector_logits
        return affine(inputs, self.selector_kernel, self.selector_bias)

    def _compute_weight_logits(self, inputs: Tensor) -> Tensor:
        if self.static:
            return self.weight_logits
        return affine(inputs, self.weight_kernel, self.weight_bias)

    @property
    def _has_unreachable_codes(self) -> bool:
        is_power_of_two = self.num_experts & (self.num_experts - 1) == 0
        return self.unreachable == "penalty" and not is_power_of_two

    def _assign_codes(self, codes: Tensor) -> Tensor:
        """Turns probabilities of codes `(..., 2**m)` into those of experts."""
        n = self.num_experts
        without_expert = codes.shape[-1] - n
        if without_expert == 0:
            return codes
        if self.unreachable == "penalty":
            return codes[..., :n]
        # 2**m < 2n: at most one code more for each expert.
        folded = codes[..., :without_expert] + codes[..., n:]
        return ops.concatenate([folded, codes[..., without_expert:n]], axis=-1)

    def _add_unreachable_loss(
        self, reachable: Tensor, training: bool | None, mask: Tensor | None
    ) -> None:
        excess = 1.0 / (EPSILON + ops.sum(reachable, axis=-1)) - 1.0
        self.add_training_loss(
            self.unreachable_weight * ops.sum(excess, axis=-1), training, mask
        )

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "static": self.static,
            "unreachable": self.unreachable,
            "unreachable_weight": self.unreachable_weight,
        }
