from typing import Any

import keras
from keras import ops

from keras_moe.layers.gates.gate import Gate
from keras_moe.ops._affine import affine
from keras_moe.types import Config
from keras_moe.types import InitializerLike
from keras_moe.types import RegularizerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor


class LogitGate(Gate):
    """Base class of the gates that start from linear logits `xA + c`.

    A static gate has the logits `c` alone.

    Attributes:
        kernel: `A`, `(p, n)`. A static gate has none.
        bias: `c`, `(n,)`, or `None` with `use_bias=False`.
        has_softmax: Whether the weights are made of the softmax of the
            logits, all of it or a part.
        equal_weights: Whether the experts that an example has at inference
            have the same weight.

    Args:
        num_experts: Integer `n >= 2`.
        k: Integer in `[1, n]`, or `None` for a dense gate.
        static: Boolean, defaults to `False`.
        use_bias: Boolean, defaults to `True`; a static gate needs it.
        kernel_initializer: Defaults to `"glorot_uniform"`.
        bias_initializer: Defaults to `"zeros"`.
        kernel_regularizer: Optional regularizer of `kernel`.
        bias_regularizer: Optional regularizer of `bias`.
        **kwargs: Those of `Gate`.

    Raises:
        ValueError: If `static=True` and `use_bias=False`.
    """

    separable = True
    has_softmax = True
    equal_weights = False

    def __init__(
        self,
        num_experts: int,
        k: int | None = None,
        static: bool = False,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike = None,
        bias_regularizer: RegularizerLike = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_experts, k=k, static=static, **kwargs)
        if static and not use_bias:
            raise ValueError(
                "`use_bias` must be True for a static gate: the bias is all "
                f"it has. Received: use_bias={use_bias}, static={static}"
            )
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.bias = None

    def build(self, input_shape: Shape) -> None:
        if not self.static:
            self.kernel = self.add_independent_weight(
                "kernel",
                (input_shape[-1], self.num_experts),
                self.kernel_initializer,
                self.kernel_regularizer,
            )
        if self.use_bias:
            self.bias = self.add_independent_weight(
                "bias",
                (self.num_experts,),
                self.bias_initializer,
                self.bias_regularizer,
            )

    def compute_logits(self, inputs: Tensor) -> Tensor:
        """Returns the logits, `(..., n)` or `(n,)` for a static gate."""
        if self.static:
            return ops.convert_to_tensor(self.bias)
        return affine(inputs, self.kernel, self.bias)

    def get_config(self) -> Config:
        return {**super().get_config(), "use_bias": self.use_bias}
