from typing import Any

import keras
from keras import ops

from keras_moe.layers import MoE
from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="studies")
class RoutedEncoder(keras.layers.Layer):
    """A Transformer encoder layer whose feed-forward layer is a mixture.

    Computes what `keras_hub.layers.TransformerEncoder` does, each half
    normalized after its residual sum as in BERT, with a mixture of experts in
    place of the two dense layers. The other weights have the names, and the
    shapes, that they have there.

    Attributes:
        mixture: The mixture.

    Args:
        num_heads: Integer, the heads of the attention.
        mixture: `keras_moe.layers.MoE` with outputs as wide as its inputs.
            It routes every token that is not padding.
        dropout: Float in `[0, 1)`, of the attention and of both halves.
            Defaults to 0.
        layer_norm_epsilon: Float, defaults to 1e-5.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(b, s, d)`.
        padding_mask: Tensor `(b, s)`, 0 for padding.
        gate_inputs: Tensor `(b, s, ...)` for the mixture's gate, such as the
            tokens' ids for a `HashGate`. Defaults to what the experts
            compute on.
        training: Boolean.

    Returns:
        Tensor `(b, s, d)`.
    """

    def __init__(
        self,
        num_heads: int,
        mixture: MoE,
        dropout: float = 0.0,
        layer_norm_epsilon: float = 1e-5,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.mixture = mixture
        self.dropout = dropout
        self.layer_norm_epsilon = layer_norm_epsilon

    def build(
        self,
        inputs_shape: Shape,
        padding_mask_shape: Shape | None = None,
        gate_inputs_shape: Shape | None = None,
    ) -> None:
        width = int(inputs_shape[-1] or 0)
        self.self_attention = keras.layers.MultiHeadAttention(
            self.num_heads,
            width // self.num_heads,
            dropout=self.dropout,
            name="self_attention_layer",
        )
        self.self_attention.build(inputs_shape, inputs_shape)
        self.self_attention_norm = self._norm("self_attention", inputs_shape)
        self.feed_forward_norm = self._norm("feedforward", inputs_shape)
        self.residual_dropout = keras.layers.Dropout(self.dropout)
        self.mixture.build(inputs_shape, gate_inputs_shape)

    def _norm(self, half: str, shape: Shape) -> keras.layers.Layer:
        norm = keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, name=f"{half}_layer_norm"
        )
        norm.build(shape)
        return norm

    def call(
        self,
        inputs: Tensor,
        padding_mask: Tensor,
        gate_inputs: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        mask = ops.cast(padding_mask, "bool")  # (b, s)
        attended = self.self_attention(
            inputs, inputs, attention_mask=mask[:, None, :], training=training
        )
        attended = self.residual_dropout(attended, training=training)
        hidden = self.self_attention_norm(inputs + attended)
        outputs = self.mixture(
            hidden, gate_inputs=gate_inputs, training=training, mask=mask
        )
        outputs = self.residual_dropout(outputs, training=training)
        return self.feed_forward_norm(hidden + outputs)

    def compute_output_shape(
        self, inputs_shape: Shape, *others: Shape, **more: Shape
    ) -> Shape:
        return inputs_shape

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "mixture": keras.saving.serialize_keras_object(self.mixture),
            "dropout": self.dropout,
            "layer_norm_epsilon": self.layer_norm_epsilon,
        }

    @classmethod
    def from_config(cls, config: Config) -> "RoutedEncoder":
        mixture = keras.saving.deserialize_keras_object(config["mixture"])
        return cls(**{**config, "mixture": mixture})
