from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_integer
from keras_moe.checks import check_non_negative
from keras_moe.layers.gates.gate import Gate
from keras_moe.ops._selection_bias import moved_bias
from keras_moe.ops._zero_but_nan import zero_but_nan
from keras_moe.ops.top_k import top_k_mask
from keras_moe.ops.top_k import top_k_softmax
from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor


class ScoredGate(Gate):
    """Base class of the gates that select the `k` experts with the best scores.

    With `balance="bias"` the load is balanced without a loss: each expert has a
    bias `b_i`, and the `k` experts with the largest `s_i + b_i` are selected,
    `s_i` being their scores, in `[0, 1]`. Weights are made of the scores alone.
    Each call in training moves the bias by the experts' loads, the numbers of
    its rows that select them:

        b_i ← b_i + balance_rate · sign(mean load - load_i)

    Padding and rows with NaN do not count. The rows are those of all devices
    under `keras.distribution`, and of all processes within
    `keras_moe.distribution.rows_shared`. No gradient passes through the
    selection, nor reaches the bias. The losses of the router do not know the
    bias: they count the `k` largest scores without it, as that of DeepSeek-V3
    (eq. 18) does.

    `TopKGate`, `VMoEGate`, `SwitchGate` and `XMoEGate` derive from it. Others
    have no use for a bias: `SoftmaxGate` selects nothing; `MOESARTGate` and
    `GumbelSoftmaxGate` draw their experts, `HashGate` looks them up;
    `ExpertChoiceGate` has equal loads by construction; `ReMoEGate`,
    `DSelectKGate` and `COMETGate` select by which of their weights are 0, and
    would weigh by a bias as well.

    A subclass lists it before other base classes, calls `super().build` and
    makes one call in `compute_weights`: of `choose`, or of
    `chosen_probabilities` where the weights are the largest entries of a
    softmax.

    Attributes:
        k: The number of experts per example.
        selection_bias: `b`, `(n,)`, float32, a weight that is not trained,
            zeros at first; `None` without a `balance`.

    Args:
        num_experts: Integer `n >= 2`.
        k: Integer in `[1, n]`, the number of experts to select.
        balance: `None` (default) or `"bias"`.
        balance_rate: Number `>= 0`, defaults to 0.001, as published for scores
            in `[0, 1]`. With 0 the bias stays as it is.
        **kwargs: Those of `Gate`, or of the next base class.

    Raises:
        TypeError: If `k` is not an integer, or `balance_rate` not a number.
        ValueError: If `k` is outside `[1, n]`, `balance` is unknown or given
            for a static gate, or `balance_rate < 0`.

    References:
        Wang et al., Auxiliary-Loss-Free Load Balancing Strategy for
        Mixture-of-Experts, 2024, section 3.1, algorithm 1.
        DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 2.1.2, eq. 16.
    """

    always_sparse = True
    k: int

    def __init__(
        self,
        num_experts: int,
        k: int,
        balance: str | None = None,
        balance_rate: float = 0.001,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_experts, k=check_integer("k", k, 1), **kwargs)
        if balance not in (None, "bias"):
            raise ValueError(
                "`balance` must be None or 'bias'. "
                f"Received: balance={balance!r}"
            )
        if balance and self.static:
            raise ValueError(
                "`balance` must be None for a static gate, which gives all "
                f"examples the same experts. Received: balance={balance!r}"
            )
        self.balance = balance
        self.balance_rate = check_non_negative("balance_rate", balance_rate)
        self.selection_bias: keras.Variable | None = None

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        if self.balance is not None:
            self.selection_bias = self.add_weight(
                name="selection_bias",
                shape=(self.num_experts,),
                initializer="zeros",
                trainable=False,
            )

    def choose(
        self, scores: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        """Selects the experts of each example; in training, moves the bias.

        Args:
            scores: Float32 tensor `(..., n)`.
            training: Boolean.
            mask: Boolean tensor `(...)`, the examples that count, or `None`.

        Returns:
            Boolean tensor `(..., n)` with `k` true entries per example, or none
            where a score is NaN.
        """
        scores = ops.stop_gradient(scores)
        if self.selection_bias is None:
            return top_k_mask(self.limit_choice(scores), self.k)
        scores = self.limit_choice(scores + self.selection_bias)
        chosen = top_k_mask(scores, self.k)
        if training:
            self.selection_bias.assign(
                moved_bias(self.selection_bias, chosen, self.balance_rate, mask)
            )
        return chosen

    def limit_choice(self, scores: Tensor) -> Tensor:
        """Returns the scores, `(..., n)`, that `choose` takes the largest of.

        A subclass that rules out experts gives them the float32 minimum.

        Args:
            scores: Float32 tensor `(..., n)`, with the bias.
        """
        return scores

    def chosen_probabilities(
        self, logits: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        """Returns the softmax of the logits, 0 for all but the chosen experts.

        Args:
            logits: Float32 tensor `(..., n)`.
            training: Boolean.
            mask: Boolean tensor `(...)`, the examples that count, or `None`.

        Returns:
            Float32 tensor `(..., n)`.
        """
        if self.balance is None:
            return top_k_softmax(logits, self.k)
        probabilities = ops.softmax(logits, axis=-1)
        chosen = self.choose(probabilities, training, mask)
        return ops.where(chosen, probabilities, zero_but_nan(probabilities))

    def _unused_arguments(self) -> set[str]:
        unused = super()._unused_arguments()
        return unused if self.balance else unused | {"balance_rate"}

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "k": self.k,
            "balance": self.balance,
            "balance_rate": self.balance_rate,
        }
