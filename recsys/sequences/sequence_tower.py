from collections.abc import Sequence

import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="recsys")
class SequenceTower(keras.layers.Layer):
    """Turns the vectors of a history into one vector for each position.

    The vector of a position knows that position and those before it: it is
    what the next item is looked for with. Each position adds a learned vector,
    then come the blocks and a norm.

    Args:
        blocks: Layers from `(B, T, D)` to `(B, T, D)` that take a `mask`, of
            `recsys.sequences.blocks`.
        length: Integer, most positions.
        dropout: Float in `[0, 1)`, share of what the blocks see that is
            dropped while training. Defaults to 0.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(B, T, D)`, `T <= length`, oldest first.
        mask: Boolean tensor `(B, T)`, false for padding. `None` (default)
            where there is none.
        training: Boolean.

    Returns:
        Float32 tensor `(B, T, D)`. What it holds for padding means nothing.

    Example:
    >>> from recsys.sequences.hstu_block import HSTUBlock
    >>> tower = SequenceTower([HSTUBlock(length=5)], length=5)
    >>> tuple(tower(ops.ones((1, 3, 4))).shape)
    (1, 3, 4)
    """

    def __init__(
        self,
        blocks: Sequence[keras.layers.Layer],
        length: int,
        dropout: float = 0.0,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.blocks = list(blocks)
        self.length = length
        self.dropout = dropout
        self.supports_masking = True
        self.drop = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.norm = keras.layers.LayerNormalization(
            epsilon=1e-6, name="norm", dtype="float32"
        )

    def build(self, inputs_shape: Shape) -> None:
        self.positions = self.add_weight(
            name="positions",
            shape=(self.length, inputs_shape[-1]),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
        )
        for layer in (*self.blocks, self.norm):
            if not layer.built:
                layer.build(inputs_shape)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        vectors = inputs + self.positions[: ops.shape(inputs)[1]]
        vectors = self.drop(vectors, training=training)
        for block in self.blocks:
            vectors = block(vectors, mask=mask, training=training)
        return self.norm(vectors)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return tuple(inputs_shape)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "blocks": [
                keras.saving.serialize_keras_object(block)
                for block in self.blocks
            ],
            "length": self.length,
            "dropout": self.dropout,
        }

    @classmethod
    def from_config(cls, config: Config) -> "SequenceTower":
        restore = keras.saving.deserialize_keras_object
        blocks = [restore(block) for block in config["blocks"]]
        return cls(**{**config, "blocks": blocks})
