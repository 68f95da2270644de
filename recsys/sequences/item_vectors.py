from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor

_STDDEV = 0.02  # Of first values.


@keras.saving.register_keras_serializable(package="recsys")
class ItemVectors(keras.layers.Layer):
    """A vector for each item: one of its own, and what its features add.

    Of a feature with ids, one or a list in each row, the mean of their vectors
    is added; of one with a vector, a linear map of it. They are both what a
    history consists of and what is looked for.

    Args:
        num_items: Integer, how many items there are, numbered from 1; 0 is an
            unknown one.
        dim: Integer, width of the vectors.
        item: Name of the item's own number among the inputs.
        num_ids: For each feature with ids, how many there are, numbered from
            0. A list has -1 behind its end.
        widths: For each feature with a vector, its width.
        unit: Boolean, whether what is looked for has length 1. Defaults to
            `False`.
        **kwargs: `name`, `trainable`, `dtype`.

    Attributes:
        known: For each feature, what the catalogue has of each item, an
            untrained weight `(num_items + 1, ...)`, filled by `fill`.

    Call arguments:
        inputs: By name, the items' numbers, an integer tensor `(B,)`, and
            what stands for each further feature, `(B, ...)`.

    Returns:
        Tensor `(B, D)`.

    Example:
    >>> layer = ItemVectors(5, dim=4, item="film", num_ids={"genres": 3})
    >>> films = {"film": np.array([5]), "genres": np.array([[2, 1, -1]])}
    >>> layer.build({"film": (None,), "genres": (None, 3)})
    >>> tuple(layer(films).shape)
    (1, 4)
    """

    def __init__(
        self,
        num_items: int,
        dim: int,
        item: str,
        num_ids: Mapping[str, int] = {},
        widths: Mapping[str, int] = {},
        unit: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.num_items = num_items
        self.dim = dim
        self.item = item
        self.num_ids = dict(num_ids)
        self.widths = dict(widths)
        self.unit = unit

    def build(self, inputs_shape: Mapping[str, Shape]) -> None:
        """Builds the tables.

        Args:
            inputs_shape: The shape of each input, by name.
        """
        self.own = self._table("own", self.num_items + 1)
        self.tables = {
            name: self._table(f"table_{number}", count)
            for number, (name, count) in enumerate(self.num_ids.items())
        }
        self.maps = {
            name: self._table(f"map_{number}", width)
            for number, (name, width) in enumerate(self.widths.items())
        }
        self.known = {
            name: self.add_weight(
                name=f"known_{number}",
                shape=(self.num_items + 1, *inputs_shape[name][1:]),
                dtype="int32" if name in self.num_ids else "float32",
                initializer="zeros",
                trainable=False,
                autocast=False,
            )
            for number, name in enumerate([*self.num_ids, *self.widths])
        }
        self.built = True

    def _table(self, name: str, rows: int) -> keras.Variable:
        initializer = keras.initializers.RandomNormal(stddev=_STDDEV)
        return self.add_weight(
            name=name, shape=(rows, self.dim), initializer=initializer
        )

    @property
    def id_tables(self) -> list[keras.Variable]:
        """The tables with a row for each id; row 0 is for unknown ones."""
        return [self.own, *self.tables.values()]

    def call(self, inputs: Mapping[str, Tensor]) -> Tensor:
        vectors = ops.take(self.own, inputs[self.item], axis=0)
        return self.looked_for(vectors + self._added(inputs))

    def catalogue(self) -> Tensor:
        """Returns what histories consist of, `(num_items + 1, D)`."""
        return self.own + self._added(self.known)

    def looked_for(self, vectors: Tensor) -> Tensor:
        """Returns what scores are the dot product with.

        Args:
            vectors: Tensor `(..., D)`, rows of `catalogue`.
        """
        return ops.normalize(vectors, axis=-1) if self.unit else vectors

    def fill(self, features: Mapping[str, np.ndarray]) -> None:
        """Takes over what a catalogue has of its items.

        Args:
            features: For each feature, an array `(num_items + 1, ...)`.
        """
        for name, variable in self.known.items():
            variable.assign(ops.convert_to_numpy(features[name]))

    def _added(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Contribution of the features, `(B, D)`."""
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
            "num_items": self.num_items,
            "dim": self.dim,
            "item": self.item,
            "num_ids": self.num_ids,
            "widths": self.widths,
            "unit": self.unit,
        }
