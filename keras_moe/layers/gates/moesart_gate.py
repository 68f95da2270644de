from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_choice
from keras_moe.checks import check_integer
from keras_moe.checks import check_non_negative
from keras_moe.checks import check_positive
from keras_moe.layers.gates.logit_gate import LogitGate
from keras_moe.ops._zero_but_nan import zero_but_nan
from keras_moe.ops.sampling import adjusted_softmax
from keras_moe.ops.sampling import choose_one
from keras_moe.ops.sampling import draw_with_replacement
from keras_moe.ops.sampling import draw_without_replacement
from keras_moe.ops.top_k import top_k_mask
from keras_moe.regularizers import trimmed_lasso
from keras_moe.types import Config
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class MOESARTGate(LogitGate):
    """Draws `k` experts from a softmax while training.

    With the logits `o = (xA + c) / τ` and `g = softmax(o)`, `k` experts are
    drawn from `g` for each example, expert `i` being drawn `r_i` times. One
    of them, `z`, is chosen uniformly; the weights are then

        r_z g_z        for expert z,
        r_i / (k - 1)  for the others that were drawn,
        0              for all that were not,

    divided by their sum: an approximation of `g` with at most `k` experts,
    whose gradient reaches the gate through `g_z`. At inference nothing is
    drawn: each of the `k` experts with the largest logits has the weight
    `1 / k`, ties going to the lower index.

    Attributes:
        kernel: `A`, `(p, n)`.
        bias: `c`, `(n,)`, or `None` with `use_bias=False`.
        k: The bound on the experts per example. Without replacement, and at
            inference, it is their number.

    Args:
        num_experts: Integer `n >= 2`, the number of experts.
        k: Integer in `[2, n]`, the number of draws. With a single one the
            weight would always be 1, and the gate never trained.
        temperature: Number `τ > 0`, defaults to 1.
        trimmed_lasso_weight: Number `>= 0`, defaults to 0. Weight in the loss
            of the sum of all but the `k` largest entries of `g`; published
            searches use 0.0001 to 10.
        replacement: Boolean, defaults to `False`. Whether an expert may be
            drawn more than once.
        adjustment: Correction of the weights for the draws. `"randomized"`
            (default) is the above. `"none"` leaves them at `r_i g_i`,
            divided by their sum. `"unbiased"` sets them to `r_i / k`: with
            replacement their expectation is `g`, but they do not depend on
            `g`, so that only losses on the gate itself train it.
        **kwargs: `use_bias`; `kernel_initializer`, `"glorot_uniform"` by
            default; `bias_initializer`, `"zeros"` by default;
            `kernel_regularizer`; `bias_regularizer`; `importance_loss_weight`,
            `load_loss_weight`, `load_balance_loss_weight` and `z_loss_weight`
            of the auxiliary losses, which take `g` for the weights and its `k`
            largest entries for the experts chosen; `seed` of initializers and
            draws; `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., p)`.
        training: Boolean. Experts are drawn, and losses added, only when
            true.

    Returns:
        Float32 tensor `(..., n)`, on the simplex.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `num_experts` is outside `[2, 2^31)`, `k` is outside
            `[2, num_experts]`, `temperature <= 0`, `trimmed_lasso_weight < 0`
            or `adjustment` is unknown.

    Example:
        >>> gate = MOESARTGate(num_experts=4, k=2)
        >>> weights = gate(np.ones((3, 5)))
        >>> sorted(keras.ops.convert_to_numpy(weights[0]).tolist())
        [0.0, 0.0, 0.5, 0.5]

    References:
        Ibrahim et al., MOESART: An Effective Sampling-based Router for Sparse
        Mixture of Experts, sections 3.1.1 (`adjustment`: eq. 3, (i) and (ii),
        (iii)) and 3.2, supplement S1 and S2.
    """

    always_sparse = True
    on_simplex = True
    equal_weights = True
    k: int

    def __init__(
        self,
        num_experts: int,
        k: int,
        temperature: float = 1.0,
        trimmed_lasso_weight: float = 0.0,
        replacement: bool = False,
        adjustment: str = "randomized",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_experts, k=check_integer("k", k, 2), static=False, **kwargs
        )
        self.temperature = check_positive("temperature", temperature)
        self.trimmed_lasso_weight = check_non_negative(
            "trimmed_lasso_weight", trimmed_lasso_weight
        )
        if not isinstance(replacement, bool):
            raise TypeError(
                "`replacement` must be a boolean. "
                f"Received: replacement={replacement!r}"
            )
        self.replacement = replacement
        self.adjustment = check_choice(
            "adjustment", adjustment, ("randomized", "none", "unbiased")
        )
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        logits = self.compute_logits(inputs) / self.temperature
        if not training:
            return ops.where(
                top_k_mask(logits, self.k), 1 / self.k, zero_but_nan(logits)
            )
        self._add_losses(logits, training, mask)
        draw = (
            draw_with_replacement
            if self.replacement
            else draw_without_replacement
        )
        counts = draw(logits, self.k, self.seed_generator)
        return adjusted_softmax(
            logits, counts, self._corrected(counts > 0), self.k
        )

    def _corrected(self, drawn: Tensor) -> Tensor:
        """Marks the drawn experts whose weights are to be free of `g`."""
        if self.adjustment == "randomized":
            return ops.logical_not(choose_one(drawn, self.seed_generator))
        return ops.full_like(drawn, self.adjustment == "unbiased")

    def _add_losses(
        self, logits: Tensor, training: bool | None, mask: Tensor | None
    ) -> None:
        probabilities = ops.softmax(logits, axis=-1)
        self.add_router_losses(probabilities, logits, training, mask)
        if self.trimmed_lasso_weight:
            lasso = trimmed_lasso(probabilities, self.k, mask)
            self.add_loss(self.trimmed_lasso_weight * lasso)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "k": self.k,
            "temperature": self.temperature,
            "trimmed_lasso_weight": self.trimmed_lasso_weight,
            "replacement": self.replacement,
            "adjustment": self.adjustment,
        }
