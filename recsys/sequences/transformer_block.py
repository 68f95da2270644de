import keras

from keras_moe.layers import MoE
from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor
from recsys.sequences.self_attention import CausalSelfAttention


@keras.saving.register_keras_serializable(package="recsys")
class TransformerBlock(keras.layers.Layer):
    """Causal self-attention and a feed-forward layer, both residual.

        y = x + dropout(attention(norm(x)))
        z = y + dropout(feed_forward(norm(y)))

    Args:
        feed_forward: Layer from `(..., D)` to `(..., D)`, such as two dense
            ones, or `keras_moe.layers.MoE`, which routes each position on its
            own and gives padding to no expert.
        num_heads: Integer, heads of attention. Defaults to 2.
        dropout: Float in `[0, 1)`, share of either layer's outputs that is
            dropped while training. Defaults to 0.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(B, T, D)`.
        mask: Boolean tensor `(B, T)`, false for padding. `None` (default)
            where there is none.
        training: Boolean.

    Returns:
        Tensor `(B, T, D)`. What it holds for padding means nothing.

    Example:
    >>> import numpy as np
    >>> block = TransformerBlock(keras.layers.Dense(4), num_heads=1)
    >>> tuple(block(np.ones((1, 5, 4))).shape)
    (1, 5, 4)

    References:
        Xiong et al. On Layer Normalization in the Transformer Architecture.
        ICML 2020, figure 1 (b): the norm in front of each layer.
        Kang, McAuley. Self-Attentive Sequential Recommendation. ICDM 2018.
        Fedus, Zoph, Shazeer. Switch Transformers. JMLR 2022, section 2, for
        mixtures in the place of the feed-forward layer.
    """

    def __init__(
        self,
        feed_forward: keras.layers.Layer,
        num_heads: int = 2,
        dropout: float = 0.0,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.feed_forward = feed_forward
        self.num_heads = num_heads
        self.dropout = dropout
        self.supports_masking = True
        self.attention = CausalSelfAttention(
            num_heads, name="attention", dtype=self.dtype_policy
        )
        self.norms = [
            keras.layers.LayerNormalization(
                epsilon=1e-6, name=name, dtype=self.dtype_policy
            )
            for name in ("attention_norm", "feed_forward_norm")
        ]
        self.drops = [
            keras.layers.Dropout(dropout, dtype=self.dtype_policy)
            for _ in self.norms
        ]

    def build(self, inputs_shape: Shape) -> None:
        for layer in (*self.norms, self.attention, self.feed_forward):
            if not layer.built:
                layer.build(inputs_shape)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        before, between = self.norms
        attended = self.attention(before(inputs), mask=mask)
        inputs = inputs + self.drops[0](attended, training=training)
        normed = between(inputs)
        if isinstance(self.feed_forward, MoE):
            fed = self.feed_forward(normed, training=training, mask=mask)
        else:
            fed = self.feed_forward(normed, training=training)
        return inputs + self.drops[1](fed, training=training)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return tuple(inputs_shape)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "feed_forward": keras.saving.serialize_keras_object(
                self.feed_forward
            ),
            "num_heads": self.num_heads,
            "dropout": self.dropout,
        }

    @classmethod
    def from_config(cls, config: Config) -> "TransformerBlock":
        restore = keras.saving.deserialize_keras_object
        return cls(
            **{**config, "feed_forward": restore(config["feed_forward"])}
        )
