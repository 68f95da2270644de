from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_integer
from keras_moe.layers.gates.logit_gate import LogitGate
from keras_moe.ops._affine import affine
from keras_moe.ops._softmax_of_largest import softmax_of_largest
from keras_moe.types import Config
from keras_moe.types import InitializerLike
from keras_moe.types import RegularizerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class TopKGate(LogitGate):
    """Selects the `k` experts with the largest logits.

    Computes the softmax of `xA + c` over its `k` largest entries; the other
    experts have weight 0. Exactly `k` entries are kept: ties go to the lower
    index.

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
        k: The number of experts per example.

    Args:
        num_experts: Integer `n >= 2`, the number of experts.
        k: Integer in `[1, n]`, the number of experts to select.
        noisy: Boolean, defaults to `False`. Whether training adds
            `N(0, 1) · softplus(x·noise_kernel)` to the logits, for a more
            even load. A static gate cannot.
        static: Boolean, defaults to `False`. Whether one selection, the
            softmax of the `k` largest entries of `c`, serves all examples.
        noise_initializer: Defaults to `"zeros"`: noise of the same size for
            all experts at first.
        noise_regularizer: Optional regularizer of `noise_kernel`.
        **kwargs: `use_bias`, which a static gate needs;
            `kernel_initializer`, `"glorot_uniform"` by default;
            `bias_initializer`, `"zeros"` by default; `kernel_regularizer`;
            `bias_regularizer`; `seed` of initializers and noise; `name`,
            `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., p)`.
        training: Boolean. Noise is drawn only when true.

    Returns:
        Float32 tensor `(..., n)`, or `(n,)` for a static gate, on the
        simplex.

    Raises:
        TypeError: If `num_experts` or `k` is not an integer.
        ValueError: If `num_experts` is outside `[2, 2^31)`, `k` is outside
            `[1, num_experts]`, or the gate is both `noisy` and `static`.

    Example:
        >>> gate = TopKGate(num_experts=4, k=2)
        >>> weights = gate(np.ones((3, 5)))
        >>> [int(n) for n in keras.ops.sum(weights > 0, axis=-1)]
        [2, 2, 2]

    References:
        Shazeer et al., Outrageously Large Neural Networks: The
        Sparsely-Gated Mixture-of-Experts Layer, ICLR 2017, eq. 3 to 5 and
        appendix A.
    """

    always_sparse = True
    on_simplex = True
    k: int

    def __init__(
        self,
        num_experts: int,
        k: int,
        noisy: bool = False,
        static: bool = False,
        noise_initializer: InitializerLike = "zeros",
        noise_regularizer: RegularizerLike = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_experts,
            k=check_integer("k", k, 1),
            static=static,
            **kwargs,
        )
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
        weights = softmax_of_largest(noisy_logits, self.k)
        self.add_router_losses(
            weights,
            logits,
            training,
            mask,
            noisy_logits,
            noise_std,
            load_bar="others" if self.noisy else "all",
        )
        return weights

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "k": self.k,
            "noisy": self.noisy,
            "static": self.static,
        }
