from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_moe.layers.experts.mlp_experts import MLPExperts
from keras_moe.types import Shape
from keras_moe.types import Tensor

# The largest 8-bit integer; without -128 the range is symmetric.
LARGEST = 127


@keras.saving.register_keras_serializable(package="keras_moe")
class QuantizedExperts(MLPExperts):
    """A bank of multi-layer perceptrons with kernels of 8-bit integers.

    Of a kernel `W`, each output `h` of each expert `e` has a scale of its own:

        s_eh = max_d |W_edh| / 127,    Q_edh = round(W_edh / s_eh).

    The bank computes with `Q_edh s_eh`, which is off by `s_eh / 2` at most.
    Its kernels take a quarter of the memory; each call expands them, so it is
    not faster. They are not trained; biases, which stay as they are, may be.

    `QuantizedExperts.of` makes one of trained experts, as
    `keras_moe.compress.quantize` does for a model. A new one is all zeros.

    Attributes:
        kernels: One int8 weight `(n, inputs, units)` per layer, `Q`.
        scales: One float32 weight `(n, units)` per layer, `s`.
        biases: One `(n, units)` weight per layer; empty with `use_bias=False`.

    Args:
        num_experts, units, **kwargs: Those of `MLPExperts`.

    Call arguments:
        inputs, group_sizes, training: Those of `MLPExperts`.

    Returns:
        As `MLPExperts`.

    Example:
        >>> experts = MLPExperts(num_experts=4, units=8)
        >>> experts.build((None, 3))
        >>> quantized = QuantizedExperts.of(experts)
        >>> quantized.kernels[0].dtype, tuple(quantized.scales[0].shape)
        ('int8', (4, 8))

    References:
        Kim et al., Mixture of Quantized Experts (MoQE): Complementary Effect
        of Low-bit Quantization and Robustness, 2023 (weights only,
        by output channel).
    """

    @classmethod
    def of(cls, experts: MLPExperts) -> "QuantizedExperts":
        """Returns a bank of the same experts, quantized.

        Args:
            experts: A built bank.

        Raises:
            ValueError: If a kernel is not finite.
        """
        bank: QuantizedExperts = cls.from_config(experts.get_config())
        bank.build((None, experts.kernels[0].shape[1]))
        for kernel, integers, scales in zip(
            experts.kernels, bank.kernels, bank.scales, strict=True
        ):
            values = np.asarray(ops.convert_to_numpy(kernel), "float32")
            if not np.isfinite(values).all():
                raise ValueError(
                    "`experts` must have finite kernels. "
                    f"Received: {kernel.path} of {experts!r}"
                )
            rounded, scale = _quantized(values)
            integers.assign(rounded)
            scales.assign(scale)
        for mine, theirs in zip(experts.biases, bank.biases, strict=True):
            theirs.assign(mine)
        return bank

    def build(self, input_shape: Shape) -> None:
        self.scales: list[keras.Variable] = []
        super().build(input_shape)

    def _add_kernel(
        self, layer: int, width: int | None, units: int
    ) -> keras.Variable:
        self.scales.append(
            self.add_weight(
                name=f"scale_{layer}",
                shape=(self.num_experts, units),
                initializer="ones",
                dtype="float32",
                autocast=False,
                trainable=False,
            )
        )
        return self.add_weight(
            name=f"kernel_{layer}",
            shape=(self.num_experts, width, units),
            initializer="zeros",
            dtype="int8",
            trainable=False,
        )

    def _kernel_values(self) -> list[Tensor]:
        expanded = []
        for kernel, scale in zip(self.kernels, self.scales, strict=True):
            values = ops.cast(kernel, "float32")
            # In place on PyTorch: a second tensor of this size, new memory in
            # each call, took a third of the time with 256 experts.
            values *= ops.expand_dims(  # (E, D, H) times (E, 1, H)
                ops.convert_to_tensor(scale), 1
            )
            expanded.append(ops.cast(values, self.compute_dtype))
        return expanded

    def subset(self, indices: Sequence[int]) -> "QuantizedExperts":
        kept = super().subset(indices)
        assert isinstance(kept, QuantizedExperts)
        for mine, theirs in zip(self.scales, kept.scales, strict=True):
            theirs.assign(ops.take(mine.value, list(indices), axis=0))
        return kept


def _quantized(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The integers `(n, d, h)` and the scales `(n, h)` of a kernel."""
    scale = np.abs(kernel).max(axis=1, initial=0.0) / LARGEST
    # An output that is always zero has any scale.
    scale = np.where(scale > 0, scale, 1.0).astype("float32")
    return np.rint(kernel / scale[:, None]).astype("int8"), scale
