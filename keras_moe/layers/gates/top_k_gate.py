from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_choice
from keras_moe.checks import check_integer
from keras_moe.checks import check_positive
from keras_moe.layers.gates.logit_gate import LogitGate
from keras_moe.layers.gates.scored_gate import ScoredGate
from keras_moe.ops._affine import affine
from keras_moe.ops._expert_groups import within_best_groups
from keras_moe.ops._softmax_of_largest import softmax_of_largest
from keras_moe.ops.masked_softmax import masked_softmax
from keras_moe.ops.top_k import top_k_mask
from keras_moe.types import Config
from keras_moe.types import InitializerLike
from keras_moe.types import RegularizerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class TopKGate(ScoredGate, LogitGate):
    """Selects the `k` experts with the largest logits.

    Computes the softmax of `xA + c` over its `k` largest entries; the other
    experts have weight 0. Exactly `k` entries are kept: ties go to the lower
    index.

    With `scores="sigmoid"` the score of an expert is `s_i = sigmoid(xA + c)_i`,
    whatever those of the others, and the weights are the `k` largest scores
    divided by their sum. To the losses of the router, the probability of an
    expert is `s_i` divided by the sum of all scores.

    With `num_groups > 1` the experts are in equal groups of neighbours, such as
    those of one machine, and an example has experts of `groups_per_example`
    groups at most: those with the largest sum of their two largest scores, or
    the largest one where `k` or the size of a group is 1. Scores are what
    experts are selected by: a softmax over all experts, or sigmoids, and the
    bias of `balance="bias"`. The losses of the router do not know the groups.

    With `k = 1` the one weight is always 1, so that no gradient reaches
    `kernel` and `bias` through it: the gate stays as it was initialized,
    unless a loss on the gate itself trains it. Choose `k >= 2`, or a gate
    whose weights are not renormalized.

    `load_loss_weight` adds the paper's load loss where the gate is `noisy`:
    expert `i` is chosen if its noisy logit passes the `k`-th largest of the
    others. Without noise there is nothing to draw anew, and it is that of
    `VMoEGate`.

    Attributes:
        kernel: `A`, `(p, n)`. A static gate has none.
        bias: `c`, `(n,)`, or `None` with `use_bias=False`.
        noise_kernel: `(p, n)`, only with `noisy=True`.
        selection_bias: `(n,)`, only with `balance="bias"`: what is added to
            the scores for the selection.
        k: The number of experts per example.

    Args:
        num_experts: Integer `n >= 2`, the number of experts.
        k: Integer in `[1, n]`, the number of experts to select.
        noisy: Boolean, defaults to `False`. Whether training adds
            `N(0, 1) · softplus(x·noise_kernel)` to the logits, for a more
            even load. A static gate cannot.
        static: Boolean, defaults to `False`. Whether one selection, the
            softmax of the `k` largest entries of `c`, serves all examples.
        scores: `"softmax"` (default) or `"sigmoid"`.
        route_scale: Number `> 0`, defaults to 1, that all weights are
            multiplied by, and so add up to.
        num_groups: Integer `>= 1` that divides `n`, defaults to 1, the number
            of groups of experts.
        groups_per_example: Integer in `[1, num_groups]`, defaults to 1: the
            number of groups to select from, which have `k` experts or more.
        noise_initializer: Defaults to `"zeros"`: noise of the same size for
            all experts at first.
        noise_regularizer: Optional regularizer of `noise_kernel`.
        **kwargs: `use_bias`, which a static gate needs;
            `kernel_initializer`, `"glorot_uniform"` by default;
            `bias_initializer`, `"zeros"` by default; `kernel_regularizer`;
            `bias_regularizer`; `balance`, `None` or `"bias"`, and
            `balance_rate`, 0.001 by default, as in `ScoredGate`; `seed` of
            initializers and noise; `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., p)`.
        training: Boolean. Noise is drawn, and the bias moved, only when true.

    Returns:
        Float32 tensor `(..., n)`, or `(n,)` for a static gate, on the
        simplex, times `route_scale`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `num_experts` is outside `[2, 2^31)`, `k` is outside
            `[1, num_experts]`, the gate is both `noisy` and `static`, or
            `balance` is given for a static gate, `scores` or `balance` is
            unknown, `route_scale <= 0`, `balance_rate < 0`, `num_groups` does
            not divide `num_experts`, or `groups_per_example` is outside
            `[1, num_groups]` or leaves fewer than `k` experts.

    Example:
        >>> gate = TopKGate(num_experts=4, k=2)
        >>> weights = gate(np.ones((3, 5)))
        >>> [int(n) for n in keras.ops.sum(weights > 0, axis=-1)]
        [2, 2, 2]

    References:
        Shazeer et al., Outrageously Large Neural Networks: The
        Sparsely-Gated Mixture-of-Experts Layer, ICLR 2017, eq. 3 to 5 and
        appendix A.
        DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 2.1.2, eq. 13
        to 16 (sigmoid scores, bias), 18 and 19 (probabilities for a loss),
        node-limited routing (groups; there, the largest
        `k / groups_per_example` scores of a group count, which are two in the
        published model).
        Wang et al., Auxiliary-Loss-Free Load Balancing Strategy for
        Mixture-of-Experts, 2024 (bias).
    """

    on_simplex = True

    def __init__(
        self,
        num_experts: int,
        k: int,
        noisy: bool = False,
        static: bool = False,
        noise_initializer: InitializerLike = "zeros",
        noise_regularizer: RegularizerLike = None,
        scores: str = "softmax",
        route_scale: float = 1.0,
        num_groups: int = 1,
        groups_per_example: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_experts, k=k, static=static, **kwargs)
        if noisy and static:
            raise ValueError(
                "`noisy` must be False for a static gate: the noise depends "
                f"on the example. Received: noisy={noisy}, static={static}"
            )
        self.noisy = noisy
        self.noise_initializer = keras.initializers.get(noise_initializer)
        self.noise_regularizer = keras.regularizers.get(noise_regularizer)
        if noisy:
            self.seed_generator = keras.random.SeedGenerator(self.seed)
        self.scores = check_choice("scores", scores, ("softmax", "sigmoid"))
        self.route_scale = check_positive("route_scale", route_scale)
        self.on_simplex = self.route_scale == 1
        self.has_softmax = self.scores == "softmax" and self.on_simplex
        self.num_groups = check_integer("num_groups", num_groups, 1)
        # An expert that is cut would leave groups of different sizes.
        self.separable = self.num_groups == 1
        self.groups_per_example = check_integer(
            "groups_per_example", groups_per_example, 1, self.num_groups
        )
        self._check_groups()

    def _check_groups(self) -> None:
        if self.num_experts % self.num_groups:
            raise ValueError(
                f"`num_groups` must divide the {self.num_experts} experts into "
                f"equal groups. Received: num_groups={self.num_groups}"
            )
        eligible = self.groups_per_example * self._group_size
        if eligible < self.k:
            raise ValueError(
                f"`groups_per_example` must leave at least k={self.k} experts, "
                f"of {self.num_groups} groups of {self._group_size} each. "
                f"Received: groups_per_example={self.groups_per_example}"
            )

    @property
    def _group_size(self) -> int:
        return self.num_experts // self.num_groups

    @property
    def _is_limited(self) -> bool:
        """Whether an example has fewer groups than there are."""
        return self.groups_per_example < self.num_groups

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        if self.noisy:
            self.noise_kernel = self.add_independent_weight(
                "noise_kernel",
                (input_shape[-1], self.num_experts),
                self.noise_initializer,
                self.noise_regularizer,
            )

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        logits = self.compute_logits(inputs)
        noise_std, noisy_logits = None, logits
        if self.noisy and training:
            noise_std = ops.softplus(affine(inputs, self.noise_kernel))
            noisy_logits = logits + noise_std * keras.random.normal(
                ops.shape(logits), dtype=logits.dtype, seed=self.seed_generator
            )
        weights = self._weigh(noisy_logits, training, mask)
        self.add_router_losses(
            weights,
            logits,
            training,
            mask,
            noisy_logits,
            noise_std,
            load_bar="others" if self.noisy else "all",
        )
        return weights if self.route_scale == 1 else self.route_scale * weights

    def _weigh(
        self, logits: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        """Returns the weights `(..., n)`, on the simplex."""
        by_logits = self.balance is None and not self._is_limited
        if by_logits and self.scores == "softmax":
            return softmax_of_largest(logits, self.k)
        if by_logits:
            # Scores have the order of logits, unless they are rounded to 1.
            chosen = top_k_mask(logits, self.k)
        else:
            chosen = self.choose(self._score(logits), training, mask)
        return masked_softmax(self._log_score(logits), chosen)

    def _score(self, logits: Tensor) -> Tensor:
        if self.scores == "softmax":
            return ops.softmax(logits, axis=-1)
        return ops.sigmoid(logits)

    def _log_score(self, logits: Tensor) -> Tensor:
        """Returns what the softmax of divides scores by the sum of some."""
        # Scores themselves could all be rounded to 0.
        return logits if self.scores == "softmax" else ops.log_sigmoid(logits)

    def limit_choice(self, scores: Tensor) -> Tensor:
        if not self._is_limited:
            return scores
        return within_best_groups(
            scores,
            self.num_groups,
            self.groups_per_example,
            min(2, self.k, self._group_size),
        )

    def compute_probabilities(self, logits: Tensor) -> Tensor:
        return super().compute_probabilities(self._log_score(logits))

    def _unused_arguments(self) -> set[str]:
        unused = super()._unused_arguments()
        if self.scores == "softmax":
            unused.add("scores")
        if self.route_scale == 1:
            unused.add("route_scale")
        if self.num_groups == 1:
            unused |= {"num_groups", "groups_per_example"}
        return unused

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "noisy": self.noisy,
            "static": self.static,
            "scores": self.scores,
            "route_scale": self.route_scale,
            "num_groups": self.num_groups,
            "groups_per_example": self.groups_per_example,
        }
