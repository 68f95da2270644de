from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor

_STDDEV = 0.02  # Of first values.


@keras.saving.register_keras_serializable(package="recsys")
class FeatureVectors(keras.layers.Layer):
    """A vector for each row: the sum of what its features add.

    Of a feature with ids, one or a list in each row, the mean of their vectors
    is added; of one with a vector, a linear map of it.

    Args:
        dim: Integer, width of the vectors.
        num_ids: For each feature with ids, how many there are, numbered from
            0. A list has -1 behind its end.
        widths: For each feature with a vector, its width.
        **kwargs: `name`, `trainable`, `dtype`.

    Attributes:
        tables: For each feature with ids, their vectors, a weight `(ids, D)`.
        maps: For each feature with a vector, a weight `(width, D)`.

    Call arguments:
        inputs: By name, what stands for each feature, `(B, ...)`.

    Returns:
        Tensor `(B, D)`.

    Example:
    >>> import numpy as np
    >>> layer = FeatureVectors(4, num_ids={"country": 3}, widths={"face": 2})
    >>> inputs = {"country": np.array([2, 0]), "face": np.ones((2, 2))}
    >>> tuple(layer(inputs).shape)
    (2, 4)
    """

    def __init__(
        self,
        dim: int,
        num_ids: Mapping[str, int] = {},
        widths: Mapping[str, int] = {},
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.dim = dim
        self.num_ids = dict(num_ids)
        self.widths = dict(widths)

    def build(self, inputs_shape: Mapping[str, Shape]) -> None:
        self.tables = {
            name: self.add_table(f"table_{number}", count)
            for number, (name, count) in enumerate(self.num_ids.items())
        }
        self.maps = {
            name: self.add_table(f"map_{number}", width)
            for number, (name, width) in enumerate(self.widths.items())
        }
        self.built = True

    def add_table(self, name: str, rows: int) -> keras.Variable:
        """Adds a weight.

        Args:
            name: Its name.
            rows: How many vectors it has.
        """
        initializer = keras.initializers.RandomNormal(stddev=_STDDEV)
        return self.add_weight(
            name=name, shape=(rows, self.dim), initializer=initializer
        )

    def call(self, inputs: Mapping[str, Tensor]) -> Tensor:
        return self.added(inputs)

    def added(self, inputs: Mapping[str, Tensor]) -> Any:
        """Returns what features add, `(B, D)`; 0 where there are none.

        Args:
            inputs: As those of a call.
        """
        added: Any = 0.0
        for name, table in self.tables.items():
            ids = ops.convert_to_tensor(inputs[name])
            ids = ops.reshape(ids, (ops.shape(ids)[0], -1))  # (B, L)
            there = ops.cast(ids >= 0, table.dtype)[..., None]
            rows = ops.take(table, ops.maximum(ids, 0), axis=0)  # (B, L, D)
            counts = ops.maximum(ops.sum(there, axis=1), 1.0)
            added = added + ops.sum(there * rows, axis=1) / counts
        for name, kernel in self.maps.items():
            vectors = ops.cast(inputs[name], kernel.dtype)
            added = added + ops.matmul(vectors, kernel)
        return added

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "dim": self.dim,
            "num_ids": self.num_ids,
            "widths": self.widths,
        }
