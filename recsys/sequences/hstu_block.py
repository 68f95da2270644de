import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="recsys")
class HSTUBlock(keras.layers.Layer):
    """A block of hierarchical sequential transduction units.

        U, V, Q, K = split(silu(projection(norm(x))))
        A = silu(Q K^T + r) / length, zero for later positions and padding
        y = x + dropout(output(norm(A V) * U))

    Attention is pointwise, without softmax, so that its sum tells how much of
    a history is alike; U takes the place of a feed-forward layer. r is a bias
    for each distance of two positions; the paper's bias for the time between
    two events is left out, as logs may tell no more than their order.

    Args:
        length: Integer, most positions.
        num_heads: Integer that divides the width. Defaults to 2.
        dropout: Float in `[0, 1)`, share of the outputs that is dropped while
            training. Defaults to 0.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(B, T, D)`, `T <= length`.
        mask: Boolean tensor `(B, T)`, false for padding. `None` (default)
            where there is none.
        training: Boolean.

    Returns:
        Tensor `(B, T, D)`. What it holds for padding means nothing.

    Raises:
        ValueError: The width is no multiple of the number of heads.

    Example:
    >>> block = HSTUBlock(length=5, num_heads=1)
    >>> tuple(block(ops.ones((1, 5, 4))).shape)
    (1, 5, 4)

    References:
        Zhai et al. Actions Speak Louder than Words: Trillion-Parameter
        Sequential Transducers for Generative Recommendations. ICML 2024,
        section 3, equations 1 to 3.
    """

    def __init__(
        self,
        length: int,
        num_heads: int = 2,
        dropout: float = 0.0,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.length = length
        self.num_heads = num_heads
        self.dropout = dropout
        self.supports_masking = True
        self.norms = [
            keras.layers.LayerNormalization(
                epsilon=1e-6, name=name, dtype=self.dtype_policy
            )
            for name in ("inputs_norm", "attended_norm")
        ]
        self.drop = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def build(self, inputs_shape: tuple[int, ...]) -> None:
        width = inputs_shape[-1]
        if width % self.num_heads:
            raise ValueError(
                "`num_heads` must divide the width of the inputs. "
                f"Received: num_heads={self.num_heads}, width {width}"
            )
        self.projection = keras.layers.Dense(
            4 * width,
            activation="silu",
            name="projection",
            dtype=self.dtype_policy,
        )
        self.output_layer = keras.layers.Dense(
            width, name="output", dtype=self.dtype_policy
        )
        layers = (self.projection, self.output_layer, *self.norms)
        for layer in layers:
            layer.build(inputs_shape)
        self.bias = self.add_weight(
            name="bias", shape=(self.length,), initializer="zeros"
        )
        self.built = True

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        batch, length, width = ops.shape(inputs)
        before, after = self.norms
        projected = ops.reshape(  # (B, T, 4 D) -> (B, T, 4, H, D / H)
            self.projection(before(inputs)),
            (batch, length, 4, self.num_heads, width // self.num_heads),
        )
        projected = ops.cast(projected, self.compute_dtype)
        gates, values, queries, keys = (
            projected[:, :, part] for part in range(4)
        )
        scores = ops.einsum("bqhd,bkhd->bhqk", queries, keys)
        places = ops.arange(length)
        distances = places[:, None] - places[None, :]  # (T, T), of query - key
        scores = scores + ops.take(self.bias, ops.maximum(distances, 0), axis=0)
        seen = (distances >= 0)[None, None]  # (1, 1, T, T)
        if mask is not None:
            seen = ops.logical_and(seen, mask[:, None, None, :])
        weights = ops.silu(scores) / self.length
        weights = ops.where(seen, weights, ops.zeros_like(weights))
        attended = ops.einsum("bhqk,bkhd->bqhd", weights, values)
        attended = after(ops.reshape(attended, (batch, length, width)))
        gates = ops.reshape(gates, (batch, length, width))
        outputs = self.output_layer(attended * gates)
        return inputs + self.drop(outputs, training=training)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return tuple(inputs_shape)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "length": self.length,
            "num_heads": self.num_heads,
            "dropout": self.dropout,
        }
