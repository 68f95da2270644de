from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor
from recsys.sequences.feature_vectors import FeatureVectors


@keras.saving.register_keras_serializable(package="recsys")
class ItemVectors(FeatureVectors):
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
        id_dropout: Float in `[0, 1)`, the share of items that each training
            step sees as one without a row: with the vector of the unknown
            item in place of its own. No effect without features. Defaults to
            0.
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

    References:
        Volkovs, Yu, Poutanen. DropoutNet: Addressing Cold Start in
        Recommender Systems. NIPS 2017, for the dropout of ids.
    """

    def __init__(
        self,
        num_items: int,
        dim: int,
        item: str,
        num_ids: Mapping[str, int] = {},
        widths: Mapping[str, int] = {},
        unit: bool = False,
        id_dropout: float = 0.0,
        **kwargs: object,
    ) -> None:
        super().__init__(dim, num_ids, widths, **kwargs)
        self.num_items = num_items
        self.item = item
        self.unit = unit
        self.id_dropout = id_dropout
        self._seed_generator: keras.random.SeedGenerator | None = None
        if id_dropout and (num_ids or widths):
            self._seed_generator = keras.random.SeedGenerator()

    def build(self, inputs_shape: Mapping[str, Shape]) -> None:
        """Builds the tables.

        Args:
            inputs_shape: The shape of each input, by name.
        """
        self.own = self.add_table("own", self.num_items + 1)
        super().build(inputs_shape)
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

    def call(self, inputs: Mapping[str, Tensor]) -> Tensor:
        vectors = ops.take(self.own, inputs[self.item], axis=0)
        return self.looked_for(vectors + self.added(inputs))

    def catalogue(self, training: bool | None = None) -> Tensor:
        """Returns what histories consist of, `(num_items + 1, D)`.

        Args:
            training: Boolean; only then are ids dropped.
        """
        own = ops.convert_to_tensor(self.own)
        if training and self._seed_generator is not None:
            draws = keras.random.uniform(
                (self.num_items + 1, 1), seed=self._seed_generator
            )
            own = ops.where(draws < self.id_dropout, own[:1], own)
        return own + self.added(self.known)

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

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "num_items": self.num_items,
            "item": self.item,
            "unit": self.unit,
            "id_dropout": self.id_dropout,
        }
