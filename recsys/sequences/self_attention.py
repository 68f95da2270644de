import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="recsys")
class CausalSelfAttention(keras.layers.Layer):
    """Attention of each position to itself and the positions before it.

    softmax(Q K^T / sqrt(D / H)) V in each of H heads, whose outputs are
    concatenated and projected. A position sees no later one, and no padding.

    Args:
        num_heads: Integer that divides the width. Defaults to 2.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(B, T, D)`.
        mask: Boolean tensor `(B, T)`, false for padding. `None` (default)
            where there is none.

    Returns:
        Tensor `(B, T, D)`. What it holds for padding means nothing.

    Raises:
        ValueError: The width is no multiple of the number of heads.

    Example:
    >>> layer = CausalSelfAttention(num_heads=2)
    >>> tuple(layer(ops.ones((1, 5, 4))).shape)
    (1, 5, 4)

    References:
        Vaswani et al. Attention Is All You Need. NeurIPS 2017, section 3.2.
        Kang, McAuley. Self-Attentive Sequential Recommendation. ICDM 2018,
        section III.B.
    """

    def __init__(self, num_heads: int = 2, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.supports_masking = True

    def build(self, inputs_shape: tuple[int, ...]) -> None:
        width = inputs_shape[-1]
        if width % self.num_heads:
            raise ValueError(
                "`num_heads` must divide the width of the inputs. "
                f"Received: num_heads={self.num_heads}, width {width}"
            )
        # Queries, keys and values in one product.
        self.projection = keras.layers.Dense(
            3 * width, name="projection", dtype=self.dtype_policy
        )
        self.output_layer = keras.layers.Dense(
            width, name="output", dtype=self.dtype_policy
        )
        for layer in (self.projection, self.output_layer):
            layer.build(inputs_shape)
        self.built = True

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, width = ops.shape(inputs)
        head_width = width // self.num_heads
        projected = ops.reshape(  # (B, T, 3 D) -> (B, T, 3, H, D / H)
            self.projection(inputs),
            (batch, length, 3, self.num_heads, head_width),
        )
        projected = ops.cast(projected, self.compute_dtype)
        attended = ops.dot_product_attention(
            *(projected[:, :, part] for part in range(3)),
            mask=None if mask is None else mask[:, None, None, :],
            is_causal=True,
        )
        merged = ops.reshape(attended, (batch, length, width))
        return self.output_layer(merged)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return tuple(inputs_shape)

    def get_config(self) -> Config:
        return {**super().get_config(), "num_heads": self.num_heads}
