import keras
from keras import ops

from keras_moe.layers.gates.smooth_step_gate import SmoothStepGate
from keras_moe.ops._affine import affine
from keras_moe.ops.binary_tree import leaf_probabilities
from keras_moe.ops.masked_softmax import masked_softmax
from keras_moe.ops.smooth_step import smooth_step
from keras_moe.types import InitializerLike
from keras_moe.types import RegularizerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor

# Added to a leaf's probability before the logarithm, as published.
EPSILON = 1e-8


@keras.saving.register_keras_serializable(package="keras_moe")
class COMETGate(SmoothStepGate):
    """Selects at most `k` experts with `k` differentiable decision trees.

    Tree `j` sends an example down to its `n` leaves, one per expert: node `q`
    sends it to the left with probability `h(x·w_q)`, `h` being `smooth_step`,
    which makes a probability `v_i` of reaching leaf `i`. With a linear
    weighting `α` of the leaves,

        g_i = Σ_j exp(α_ji) v_ji / Σ_j Σ_i exp(α_ji) v_ji.

    At first every expert has weight. As the splits become binary, sooner
    with a larger `entropy_weight`, each tree reaches a single leaf: then at
    most `k` experts have weight, fewer if trees select the same one. All
    other weights are exactly zero.

    The trees are as balanced as `n` allows. Nodes are numbered as in a heap:
    `q` has the children `2q + 1` (left) and `2q + 2` (right), the first
    `n - 1` split. Expert `i` is the `i`-th leaf met depth first, from left to
    right. For `n = 5` these are the nodes 7, 8, 4, 5, 6.

    Attributes:
        split_kernel: `(p, k, n - 1)`, in heap order.
        split_bias: `(k, n - 1)`, or `None` with `use_bias=False`.
        leaf_kernel: `(p, k, n)`, in the order of the experts.
        leaf_bias: `(k, n)`, or `None` with `use_bias=False`.
        k: The bound on the experts per example, once the splits are certain.

    Args:
        num_experts: Integer `n >= 2`, the number of experts.
        k: Integer in `[1, n]`, the number of trees.
        gamma: Number above 0, defaults to 1. Width of the region in which a
            split is not certain; published searches use 0.01 to 10.
        entropy_weight: Number `>= 0`, defaults to 0. Weight of the entropies
            of the trees' leaf probabilities, summed over the trees, in the
            loss; published searches use 0.05 to 10.
        use_bias: Boolean, defaults to `True`.
        split_initializer: Initializer of `split_kernel` and `split_bias`,
            defaults to U(-γ/100, γ/100).
        leaf_initializer: Initializer of `leaf_kernel` and `leaf_bias`,
            defaults to U(-0.05, 0.05).
        split_regularizer: Optional regularizer of `split_kernel` and
            `split_bias`.
        leaf_regularizer: Optional regularizer of `leaf_kernel` and
            `leaf_bias`.
        kernel_spread: Number above 0, or `None` (default). Draws `split_kernel`
            from U(-γ kernel_spread, γ kernel_spread), whatever
            `split_initializer` says: with 0.3, examples begin on both sides of
            a split.
        **kwargs: `seed` of the initializers, `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., p)`.
        training: Boolean. The entropy is added only when true.

    Returns:
        Float32 tensor `(..., n)`, on the simplex.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `num_experts` is outside `[2, 2^31)`, `k` is outside
            `[1, num_experts]`, `gamma <= 0` or `entropy_weight < 0`.

    Example:
        >>> gate = COMETGate(num_experts=5, k=2, entropy_weight=0.1)
        >>> tuple(gate(np.ones((3, 4))).shape)
        (3, 5)

    References:
        Ibrahim et al., COMET: Learning Cardinality Constrained Mixture of
        Experts with Trees and Local Search, KDD 2023, section 3, eq. 3, and
        appendices A and C.
    """

    on_simplex = True

    def __init__(
        self,
        num_experts: int,
        k: int,
        gamma: float = 1.0,
        entropy_weight: float = 0.0,
        use_bias: bool = True,
        split_initializer: InitializerLike | None = None,
        leaf_initializer: InitializerLike = "random_uniform",
        split_regularizer: RegularizerLike = None,
        leaf_regularizer: RegularizerLike = None,
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
            static=False,
            **kwargs,
        )
        self.split_initializer = self._decision_initializer(split_initializer)
        self.leaf_initializer = keras.initializers.get(leaf_initializer)
        self.split_regularizer = keras.regularizers.get(split_regularizer)
        self.leaf_regularizer = keras.regularizers.get(leaf_regularizer)

    def build(self, input_shape: Shape) -> None:
        self.split_kernel, self.split_bias = self._add_affine(
            "split",
            input_shape[-1],
            (self.k, self.num_experts - 1),
            self.split_initializer,
            self.split_regularizer,
            self._kernel_initializer(self.split_initializer),
        )
        self.leaf_kernel, self.leaf_bias = self._add_affine(
            "leaf",
            input_shape[-1],
            (self.k, self.num_experts),
            self.leaf_initializer,
            self.leaf_regularizer,
        )

    def compute_selectors(self, inputs: Tensor) -> Tensor:
        """Returns the probability of each tree's leaves, `(..., k, n)`."""
        left = smooth_step(
            affine(inputs, self.split_kernel, self.split_bias), self.gamma
        )
        return leaf_probabilities(left)

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        reach = self.compute_selectors(inputs)
        self._add_entropy_loss(reach, training, mask)
        logits = affine(inputs, self.leaf_kernel, self.leaf_bias)
        logits = logits + ops.log(reach + EPSILON)
        weights = ops.sum(
            masked_softmax(logits, reach > 0, axis=(-2, -1)), axis=-2
        )
        self.add_router_losses(
            weights, ops.logsumexp(logits, axis=-2), training, mask
        )
        return weights
