from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_non_negative
from keras_moe.layers.gates.logit_gate import LogitGate
from keras_moe.layers.gates.scored_gate import ScoredGate
from keras_moe.ops._affine import affine
from keras_moe.types import Config
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class SwitchGate(ScoredGate, LogitGate):
    """Keeps the `k` largest probabilities of a softmax over jittered logits.

    Computes `p = softmax((xA) ⊙ ε + c)`, `ε ~ U(1 - jitter, 1 + jitter)`
    while training and 1 otherwise; the weights are the `k` largest entries
    of `p`, the other experts have weight 0. Exactly `k` entries are kept:
    ties go to the lower index.

    The weights are not renormalized: they sum to at most 1, and train the
    gate even with `k = 1`. `load_balance_loss_weight` adds the auxiliary loss
    that the gate was published with, at a weight of 0.01.

    Attributes:
        kernel: `A`, `(p, n)`.
        bias: `c`, `(n,)`, or `None` with `use_bias=False`.
        k: The number of experts per example.

    Args:
        num_experts: Integer `n >= 2`, the number of experts.
        k: Integer in `[1, n]`, defaults to 1. The number of experts to
            select.
        jitter: Number `>= 0`, defaults to 0.02. Half the width of the
            multiplicative noise.
        **kwargs: `use_bias`; `kernel_initializer`, `"glorot_uniform"` by
            default; `bias_initializer`, `"zeros"` by default;
            `kernel_regularizer`; `bias_regularizer`; `importance_loss_weight`,
            `load_loss_weight`, `load_balance_loss_weight` and `z_loss_weight`
            of the auxiliary losses; `balance` and `balance_rate`, as in
            `ScoredGate`; `seed` of initializers and noise; `name`, `trainable`,
            `dtype`.

    Call arguments:
        inputs: Tensor `(..., p)`.
        training: Boolean. Noise is drawn, and losses added, only when true.

    Returns:
        Float32 tensor `(..., n)`, not negative, with a sum of at most 1.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `num_experts` is outside `[2, 2^31)`, `k` is outside
            `[1, num_experts]` or `jitter < 0`.

    Example:
        >>> gate = SwitchGate(num_experts=4)
        >>> keras.ops.convert_to_numpy(gate(np.zeros((1, 5))))
        array([[0.25, 0.  , 0.  , 0.  ]], dtype=float32)

    References:
        Fedus et al., Switch Transformers: Scaling to Trillion Parameter
        Models with Simple and Efficient Sparsity, JMLR 2022, section 2.
        Ibrahim et al., MOESART: An Effective Sampling-based Router for Sparse
        Mixture of Experts, section 3 (`k > 1`, the noise on the logits).
    """

    def __init__(
        self, num_experts: int, k: int = 1, jitter: float = 0.02, **kwargs: Any
    ) -> None:
        super().__init__(num_experts, k=k, static=False, **kwargs)
        self.jitter = check_non_negative("jitter", jitter)
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        products = affine(inputs, self.kernel)
        bias = 0.0 if self.bias is None else self.bias
        logits = noisy_logits = products + bias
        if training:
            noise = keras.random.uniform(
                ops.shape(products),
                minval=1 - self.jitter,
                maxval=1 + self.jitter,
                dtype=products.dtype,
                seed=self.seed_generator,
            )
            noisy_logits = products * noise + bias
        self.add_router_losses(
            ops.softmax(logits, axis=-1), logits, training, mask, noisy_logits
        )
        return self.chosen_probabilities(noisy_logits, training, mask)

    def get_config(self) -> Config:
        return {**super().get_config(), "jitter": self.jitter}
