from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_non_negative
from keras_moe.layers.gates.logit_gate import LogitGate
from keras_moe.layers.gates.scored_gate import ScoredGate
from keras_moe.types import Config
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class VMoEGate(ScoredGate, LogitGate):
    """Keeps the `k` largest probabilities of a softmax over noisy logits.

    Computes `p = softmax(xA + c + ε)`, `ε ~ N(0, (noise_std / n)²)` while
    training and 0 otherwise; the weights are the `k` largest entries of `p`,
    the other experts have weight 0. Exactly `k` entries are kept: ties go to
    the lower index.

    The weights are not renormalized: they sum to at most 1, and train the
    gate even with `k = 1`.

    `importance_loss_weight` and `load_loss_weight` add the gate's own auxiliary
    losses: the importance of an expert is its probability without noise,
    its load the probability that a fresh draw of the noise selects it.

    Attributes:
        kernel: `A`, `(p, n)`.
        bias: `c`, `(n,)`, or `None` with `use_bias=False`.
        k: The number of experts per example.

    Args:
        num_experts: Integer `n >= 2`, the number of experts.
        k: Integer in `[1, n]`, the number of experts to select.
        noise_std: Number `>= 0`, defaults to 1. Standard deviation of the
            noise, in units of `1 / n`.
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
            `[1, num_experts]` or `noise_std < 0`.

    Example:
        >>> gate = VMoEGate(num_experts=4, k=2)
        >>> keras.ops.convert_to_numpy(gate(np.zeros((1, 5))))
        array([[0.25, 0.25, 0.  , 0.  ]], dtype=float32)

    References:
        Riquelme et al., Scaling Vision with Sparse Mixture of Experts,
        NeurIPS 2021, section 2 and appendix A.
    """

    def __init__(
        self, num_experts: int, k: int, noise_std: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(num_experts, k=k, static=False, **kwargs)
        self.noise_std = check_non_negative("noise_std", noise_std)
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        logits = self.compute_logits(inputs)
        noise_std, noisy_logits = None, logits
        if self.noise_std and training:
            noise_std = self.noise_std / self.num_experts
            noisy_logits = logits + keras.random.normal(
                ops.shape(logits),
                stddev=noise_std,
                dtype=logits.dtype,
                seed=self.seed_generator,
            )
        self.add_router_losses(
            ops.softmax(logits, axis=-1),
            logits,
            training,
            mask,
            noisy_logits,
            noise_std,
        )
        return self.chosen_probabilities(noisy_logits, training, mask)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "noise_std": self.noise_std,
        }
