from collections.abc import Mapping
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops
from keras_rs.layers import BruteForceRetrieval

from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor
from keras_moe.types import TensorLike
from recsys.features.list_room import with_room_of
from recsys.retrieval.catalogue import Catalogue
from recsys.retrieval.feature_roles import FeatureRole


class IndexedItems(keras.layers.Layer):
    """The items of a catalogue, with an index over their vectors.

    Args:
        item: The id feature that says which item a row has.
        item_features: Its further features.
        num_items: Integer, how many items there are, numbered from 1.
        features: For each of `item_features`, the shape and the dtype of what
            stands for it in a batch, without the batch.
        **kwargs: `name`, `trainable`, `dtype`.

    Attributes:
        index: `keras_rs.layers.BruteForceRetrieval` over the items' vectors,
            which answers with their numbers. It is as good as the last call of
            `update_index`.
        sampling: Share of rows with each item, float32 `(num_items + 1,)`; 0
            stands for all unknown items.
        features: The item's further features, by name `(num_items + 1, ...)`.
        roles: For each feature, which tower sees it, and why; empty unless
            the layer was filled, and not saved.
    """

    def __init__(
        self,
        item: str,
        item_features: Sequence[str],
        num_items: int,
        features: Mapping[str, tuple[Sequence[int], str]],
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.item = item
        self.item_features = list(item_features)
        self.num_items = num_items
        self.feature_shapes = {
            name: (list(shape), dtype)
            for name, (shape, dtype) in features.items()
        }
        self.roles: Mapping[str, FeatureRole] = {}

    @property
    def item_names(self) -> list[str]:
        """The item and its further features."""
        return [self.item, *self.item_features]

    def build_catalogue(self, width: int) -> None:
        """Builds a catalogue of which nothing is known yet.

        Args:
            width: Width of the items' vectors.
        """
        rows = self.num_items + 1
        self.sampling = self._state("sampling", (rows,), "float32")
        self.features = {
            name: self._state(f"catalogue_{number}", (rows, *shape), dtype)
            for number, (name, (shape, dtype)) in enumerate(
                self.feature_shapes.items()
            )
        }
        self.index = BruteForceRetrieval(k=min(10, self.num_items))
        self.index.update_candidates(
            np.zeros((self.num_items, width), np.float32),
            np.arange(1, rows, dtype=np.int32),
        )

    def _state(self, name: str, shape: Shape, dtype: str) -> keras.Variable:
        return self.add_weight(
            name=name,
            shape=shape,
            dtype=dtype,
            initializer="zeros",
            trainable=False,
            autocast=False,
        )

    def fill(self, catalogue: Catalogue) -> None:
        """Takes over what the training split knows of the items.

        Args:
            catalogue: Its catalogue. What is known of items that it does not
                have stays.
        """
        self.roles = catalogue.roles
        counts = catalogue.counts
        self.sampling.assign((counts / max(1, counts.sum())).astype("float32"))
        for name, variable in self.features.items():
            known = ops.convert_to_numpy(variable)
            values = with_room_of(catalogue.values[name], known)
            there = (counts > 0).reshape(-1, *[1] * (values.ndim - 1))
            variable.assign(np.where(there, values, known))

    def items(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the inputs of the model that are of items.

        Args:
            numbers: Integer array `(items,)`.
        """
        further = {
            name: ops.convert_to_numpy(variable)[numbers]
            for name, variable in self.features.items()
        }
        return {self.item: np.asarray(numbers, np.int32), **further}

    def inputs_of(self, numbers: Tensor) -> dict[str, Tensor]:
        """Returns the inputs of the model that are of items, as tensors.

        Args:
            numbers: Integer tensor `(N,)`.
        """
        further = {
            name: ops.take(variable, numbers, axis=0)
            for name, variable in self.features.items()
        }
        return {self.item: numbers, **further}

    def update_index(self, vectors: TensorLike) -> None:
        """Replaces the items' vectors.

        Args:
            vectors: Array `(num_items, width)`, that of item 1 first.
        """
        self.index.update_candidates(vectors)

    def retrieve(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Returns the items whose vectors fit those of queries best.

        Args:
            queries: Tensor `(B, width)`.
            count: How many items, at most `num_items`.

        Returns:
            Their scores and their numbers, tensors `(B, count)`, the best
            first.
        """
        self.index.k = count
        return self.index(queries)

    @property
    def vectors(self) -> np.ndarray:
        """The items' vectors in the index, `(num_items, width)`, of NumPy."""
        return ops.convert_to_numpy(self.index.candidate_embeddings)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "item": self.item,
            "item_features": self.item_features,
            "num_items": self.num_items,
            "features": self.feature_shapes,
        }
