from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_size
from keras_moe.layers.experts.mlp_experts import MLPExperts
from keras_moe.ops._rows import gather
from keras_moe.ops.grouped_matmul import grouped_matmul
from keras_moe.types import ActivationLike
from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor

# Added to variances, as in `keras.layers.LayerNormalization`.
EPSILON = 1e-3


@keras.saving.register_keras_serializable(package="keras_moe")
class HoMEExperts(MLPExperts):
    """Perceptrons with outputs of one scale, each on a view of the inputs.

    Expert `i` computes, with a low-rank mask of its own, its feature gate, and
    the last layer of the perceptron left linear,

        y = swish(norm_i(MLP_i(x * 2 sigmoid(x A_i B_i)))).

    Normalized outputs give a gate experts that it can compare; swish leaves
    none of them zero for most rows, as ReLU does. The masks begin at 1.

    The paper normalizes by the statistics of a batch. Here each row is
    normalized over its units (`norm_i` is a layer normalization with a scale
    and an offset per expert and unit): an expert that computes only the rows
    that chose it has no statistics of the batch, and dense and sparse
    execution would differ. For batch normalization, use a list of Keras models
    that end with `BatchNormalization` as experts, in a mixture with
    `execution="dense"`.

    Computed densely, the masked inputs of all experts are `n` times as large
    as the inputs.

    Attributes:
        kernels, biases: Those of `MLPExperts`.
        scales, offsets: `(n, units[-1])` weights of the normalization.
        mask_kernels: The weights `A`, `(n, d, rank)`, and `B`,
            `(n, rank, d)`; empty without masks.

    Args:
        num_experts: Integer `n >= 1`.
        units: Integer or list of integers, the width of each layer.
        hidden_activation: Activation after every layer but the last. Defaults
            to `"relu"`.
        mask_rank: Integer, the rank of the masks, or `None` for no masks.
            Defaults to 4.
        **kwargs: Those of `MLPExperts` but for `activation`. Dropout is of each
            layer's outputs, normalized.

    Call arguments:
        inputs, group_sizes, training: Those of `MLPExperts`.

    Returns:
        As `MLPExperts`.

    Raises:
        TypeError, ValueError: Those of `MLPExperts`; `mask_rank` is no integer
            above 0.

    Example:
        >>> experts = HoMEExperts(num_experts=4, units=8, mask_rank=2)
        >>> tuple(experts(np.ones((2, 3))).shape)
        (2, 4, 8)

    References:
        Wang et al., HoME: Hierarchy of Multi-Gate Experts for Multi-Task
        Learning at Kuaishou, 2024 (expert normalization and swish, feature
        gates).
    """

    def __init__(
        self,
        num_experts: int,
        units: int | Sequence[int],
        hidden_activation: ActivationLike = "relu",
        mask_rank: int | None = 4,
        **kwargs: Any,
    ) -> None:
        depth = len(units) if isinstance(units, (list, tuple)) else 1
        super().__init__(
            num_experts,
            units,
            activation=[hidden_activation] * (depth - 1) + [None],
            **kwargs,
        )
        self.hidden_activation = keras.activations.get(hidden_activation)
        self.mask_rank = mask_rank
        if mask_rank is not None:
            self.mask_rank = check_size("mask_rank", mask_rank)

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        width = input_shape[-1]
        of_outputs = (self.num_experts, self.units[-1])
        self.scales = self.add_weight(
            name="scales", shape=of_outputs, initializer="ones"
        )
        self.offsets = self.add_weight(
            name="offsets", shape=of_outputs, initializer="zeros"
        )
        self.mask_kernels = []
        if self.mask_rank is not None:
            # After the index of the dropout.
            index = 2 * len(self.units) + 1
            self.mask_kernels = [
                self.add_weight(
                    name="mask_down",
                    shape=(self.num_experts, width, self.mask_rank),
                    initializer=self._per_expert(
                        self.kernel_initializer, index
                    ),
                ),
                self.add_weight(
                    name="mask_up",
                    shape=(self.num_experts, self.mask_rank, width),
                    initializer="zeros",
                ),
            ]

    @property
    def row_cost(self) -> int | None:
        cost = super().row_cost
        masks = self.mask_kernels[:1]
        return (cost or 0) + sum(
            2 * kernel.shape[1] * kernel.shape[2] for kernel in masks
        )

    @property
    def _takes_pairs(self) -> bool:
        return False

    def _expert_inputs(
        self, inputs: Tensor, group_sizes: Tensor | None
    ) -> Tensor:
        if not self.mask_kernels:
            return inputs
        down, up = map(ops.convert_to_tensor, self.mask_kernels)
        if group_sizes is not None:
            low = grouped_matmul(inputs, down, group_sizes)  # (S, R)
            logits = grouped_matmul(low, up, group_sizes)  # (S, D)
        else:
            low = ops.einsum("nd,edr->ner", inputs, down)
            logits = ops.einsum("ner,erd->ned", low, up)
            inputs = inputs[:, None]  # (N, D) to (N, 1, D)
        return inputs * (2 * ops.sigmoid(logits))

    def _layer_outputs(
        self, layer: int, outputs: Tensor, group_sizes: Tensor | None
    ) -> Tensor:
        if layer < len(self.units) - 1:
            return outputs
        scales, offsets = (
            # The values: of them, a device may have those of some experts.
            ops.cast(ops.convert_to_tensor(weight), "float32")
            for weight in (self.scales, self.offsets)
        )
        if group_sizes is not None:
            of_row = _experts_of_rows(group_sizes, ops.shape(outputs)[0])
            # (E, H) to (S, H)
            scales, offsets = gather(scales, of_row), gather(offsets, of_row)
        # (S, H), or (N, E, H); half precision would lose small variances.
        values = ops.cast(outputs, "float32")
        mean, variance = ops.moments(values, axes=[-1], keepdims=True)
        normalized = (values - mean) * ops.rsqrt(variance + EPSILON)
        activated = ops.silu(normalized * scales + offsets)
        return ops.cast(activated, self.compute_dtype)

    def subset(self, indices: Sequence[int]) -> "HoMEExperts":
        kept = super().subset(indices)
        assert isinstance(kept, HoMEExperts)
        for mine, theirs in zip(
            [self.scales, self.offsets, *self.mask_kernels],
            [kept.scales, kept.offsets, *kept.mask_kernels],
            strict=True,
        ):
            theirs.assign(ops.take(mine.value, list(indices), axis=0))
        return kept

    def get_config(self) -> Config:
        config = super().get_config()
        del config["activation"]
        return {
            **config,
            "hidden_activation": keras.activations.serialize(
                self.hidden_activation
            ),
            "mask_rank": self.mask_rank,
        }


def _experts_of_rows(group_sizes: Tensor, num_rows: int | Tensor) -> Tensor:
    """The expert of each row of the groups; any for the rows behind them.

    Args:
        group_sizes: Int32 `(E,)`.
        num_rows: Number of rows `S`.

    Returns:
        Int32 `(S,)`.
    """
    ends = ops.cumsum(ops.cast(group_sizes, "int32"))  # (E,)
    rows = ops.arange(num_rows, dtype="int32")
    # A binary search has no operator in ONNX.
    experts = ops.sum(ops.cast(rows[:, None] >= ends, "int32"), axis=-1)
    return ops.minimum(experts, group_sizes.shape[0] - 1)
