from typing import Any

import keras
from keras import ops

from keras_moe.layers.gates.logit_gate import LogitGate
from keras_moe.types import Config
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class SoftmaxGate(LogitGate):
    """The dense gate: every expert has weight for every example.

    Computes `g = softmax(xA + c)`; a static gate `g = softmax(c)`.

    Attributes:
        kernel: `A`, `(p, n)`. A static gate has none.
        bias: `c`, `(n,)`.
        k: `None`: the gate does not bound the experts per example.

    Args:
        num_experts: Integer `n >= 2`, the number of experts.
        static: Boolean, defaults to `False`. Whether one weighting serves
            all examples.
        use_bias: Boolean, defaults to `True`; a static gate needs it.
        kernel_initializer: Defaults to `"glorot_uniform"`.
        bias_initializer: Defaults to `"zeros"`.
        kernel_regularizer: Optional regularizer of `kernel`.
        bias_regularizer: Optional regularizer of `bias`.
        **kwargs: `seed` of the initializers, `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., p)`.

    Returns:
        Float32 tensor `(..., n)`, or `(n,)` for a static gate, on the
        simplex.

    Raises:
        TypeError: If `num_experts` is not an integer.
        ValueError: If `num_experts` is outside `[2, 2^31)`, or a static gate
            has no bias.

    Example:
        >>> gate = SoftmaxGate(num_experts=4)
        >>> tuple(gate(np.ones((2, 3))).shape)
        (2, 4)

    References:
        Jacobs et al., Adaptive Mixtures of Local Experts, 1991.
        Ma et al., Modeling Task Relationships in Multi-task Learning with
        Multi-gate Mixture-of-Experts, KDD 2018, eq. 7.
    """

    on_simplex = True
    always_dense = True
    dense_in_training = True
    balance_loss = None

    def __init__(
        self, num_experts: int, static: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(num_experts, static=static, **kwargs)

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        logits = self.compute_logits(inputs)
        weights = ops.softmax(logits, axis=-1)
        self.add_router_losses(weights, logits, training, mask)
        return weights

    def get_config(self) -> Config:
        return {**super().get_config(), "static": self.static}
