from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_integer
from keras_moe.checks import check_positive
from keras_moe.layers.gates.logit_gate import LogitGate
from keras_moe.ops._example_mean import example_mean
from keras_moe.types import Config
from keras_moe.types import IntegerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class ReMoEGate(LogitGate):
    """Weighs experts by rectified logits, and trains towards `k` of them.

    The weights are `r = relu(xA + c)`: continuous and differentiable, with as
    many experts for an example as have a positive logit, of which there may be
    none. While training, the loss gets

        λ · mean over examples of sum_i f_i r_i

    where `f_i = n/k · (share of the examples with r_i > 0)` makes busy experts
    dearer, and is 1 with `balanced=False`. After each step `λ` is multiplied by
    `growth` if the examples have more than `k` experts on average, and divided
    by it if fewer.

    The gate starts with about half of the experts, and bounds neither an
    example nor a batch. `execution="auto"` plans for `k` experts an example,
    and a quarter more; a batch above that is dense on JAX, and elsewhere where
    that is faster.

    In the publication all layers of a Transformer share one `λ`, and their
    penalties are averaged. Here each gate has its own.

    Attributes:
        kernel: `A`, `(p, n)`.
        bias: `c`, `(n,)`, or `None` with `use_bias=False`.
        target: `k`.
        penalty: `λ`, a scalar weight that is not trained.

    Args:
        num_experts: Integer `n >= 2`, the number of experts.
        k: Integer in `[1, n]`: how many experts an example comes to have on
            average.
        initial_penalty: Number `> 0`, the first `λ`. Defaults to 1e-8.
        growth: Number above 1, by which `λ` changes in a step. Defaults to
            1.2. Trainings of a few hundred steps do better with 1.05: if
            `λ` overshoots, experts lose all positive logits, and with them
            the gradient that would bring them back.
        balanced: Boolean, whether `f` balances the load. Defaults to `True`.
        **kwargs: `use_bias`; `kernel_initializer`, `"glorot_uniform"` by
            default; `bias_initializer`, `"zeros"` by default;
            `kernel_regularizer`; `bias_regularizer`; `importance_loss_weight`,
            `load_loss_weight`, `load_balance_loss_weight` and `z_loss_weight`
            of the auxiliary losses; `seed` of the initializers; `name`,
            `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., p)`.
        training: Boolean. The penalty is added, and `λ` changed, only when
            true.
        mask: Boolean tensor `(...)`, false for padding. Defaults to the
            inputs' Keras mask, if any.

    Returns:
        Float32 tensor `(..., n)`, not negative, of any sum.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `num_experts` is outside `[2, 2^31)`, `k` is outside
            `[1, num_experts]`, `initial_penalty` is not above 0 or `growth` not
            above 1.

    Example:
        >>> gate = ReMoEGate(num_experts=3, k=1, kernel_initializer="ones")
        >>> keras.ops.convert_to_numpy(gate(np.array([[2.0], [-2.0]])))
        array([[2., 2., 2.],
               [0., 0., 0.]], dtype=float32)

    References:
        Wang et al., ReMoE: Fully Differentiable Mixture-of-Experts with ReLU
        Routing, ICLR 2025, section 3: the ReLU router, the control of its
        sparsity by an adaptive L1 penalty, and the balancing of the load.
    """

    has_softmax = False
    held_at_k = True

    def __init__(
        self,
        num_experts: int,
        k: int,
        initial_penalty: float = 1e-8,
        growth: float = 1.2,
        balanced: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_experts, static=False, **kwargs)
        self.target = check_integer("k", k, 1, num_experts)
        self.initial_penalty = check_positive(
            "initial_penalty", initial_penalty
        )
        self.growth = check_positive("growth", growth)
        if self.growth <= 1:
            raise ValueError(
                "`growth` must be above 1, or the penalty would never rise. "
                f"Received: growth={growth!r}"
            )
        if not isinstance(balanced, bool):
            raise TypeError(
                f"`balanced` must be a boolean. Received: balanced={balanced!r}"
            )
        self.balanced = balanced

    @property
    def experts_per_row(self) -> float:
        return self.target

    def max_pairs(self, num_rows: IntegerLike) -> IntegerLike:
        return num_rows * self.target

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        self.penalty = self.add_weight(
            name="penalty",
            shape=(),
            initializer=keras.initializers.Constant(self.initial_penalty),
            trainable=False,
        )

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        logits = self.compute_logits(inputs)
        weights = ops.relu(logits)
        self.add_router_losses(weights, logits, training, mask)
        if training:
            active = ops.cast(weights > 0, "float32")  # Not where it is NaN.
            shares = example_mean(active, mask, trailing=1)  # (n,)
            self._add_penalty(weights, shares, mask)
            self._adapt_penalty(ops.sum(shares))
        return weights

    def _add_penalty(
        self, weights: Tensor, shares: Tensor, mask: Tensor | None
    ) -> None:
        if self.balanced:
            weights = weights * (shares * self.num_experts / self.target)
        sums = ops.sum(weights, axis=-1)  # (...)
        # A copy: PyTorch's gradient looks it up after it has been changed.
        self.add_training_loss(ops.copy(self.penalty) * sums, True, mask)

    def _adapt_penalty(self, experts: Tensor) -> None:
        """Moves the penalty towards `k`, given the experts of an example."""
        sign = ops.sign(experts - self.target)
        factor = ops.power(ops.cast(self.growth, "float32"), sign)
        self.penalty.assign(ops.stop_gradient(self.penalty * factor))

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "k": self.target,
            "initial_penalty": self.initial_penalty,
            "growth": self.growth,
            "balanced": self.balanced,
        }
