from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops
from keras_rs.layers import BruteForceRetrieval

from recsys.distribution.process_group import all_rows
from recsys.retrieval.catalogue import Catalogue
from recsys.retrieval.catalogue import with_room_of
from recsys.retrieval.feature_roles import FeatureRole
from recsys.retrieval.in_batch_softmax import in_batch_softmax

# Beside the features, what a model is given while it is trained.
ROW_WEIGHTS = "/retrieval"
# What a history calls the loss, without its weight.
RETRIEVAL_LOSS = "retrieval_loss"
# What a formula calls the dot product that items are retrieved by.
RETRIEVAL = "retrieval"


@keras.saving.register_keras_serializable(package="recsys")
class Retrieval(keras.layers.Layer):
    """Two towers, of queries and of items, with a catalogue of the items.

    The vector of a query, <u, ·>, is large for the items that it is to be
    answered with. The towers see what the ranker sees of features; they are
    trained by `in_batch_softmax`, whose mean over the rows that count is added
    to the loss.

    Args:
        item: The id feature that says which item a row has.
        item_features: Its further features.
        num_items: Integer, how many items there are, numbered from 1.
        features: For each of `item_features`, the shape and the dtype of what
            stands for it in a batch, without the batch.
        dim: Integer, width of both towers' vectors. Defaults to 32.
        units: Integers, the hidden widths of each tower. Defaults to `(256,)`.
        weight: Float, weight of the loss. Defaults to 0.1.
        label: Binary task whose label is 1 in the rows that count; all rows
            do with `None` (default).
        towers: The query tower and the item tower of a class derived from
            this one; dense layers with `None` (default).
        **kwargs: `name`, `trainable`, `dtype`.

    Attributes:
        history: Feature that the query tower takes as it is encoded; `None`
            where it takes the vectors of all features of the query.
        alone: Whether the tasks have not been trained, so that items are
            ranked by the retrieval.
        index: `keras_rs.layers.BruteForceRetrieval` over the items' vectors,
            which answers with their numbers. It is as good as the last call of
            `update_index`.
        sampling: Share of rows with each item, float32 `(num_items + 1,)`; 0
            stands for all unknown items.
        features: The item's further features, by name `(num_items + 1, ...)`.
        roles: For each feature, which tower sees it, and why; empty unless
            the layer was filled, and not saved.

    Call arguments:
        queries: Tensor `(B, width)`, what the query tower sees.
        items: Tensor `(B, width)`, what the item tower sees.
        numbers: Integer tensor `(B,)`, the items.
        weights: Float tensor `(B,)`, how much each row counts.

    Returns:
        Float32 scalar, the loss without its weight.

    References:
        Covington, Adams, Sargin. Deep Neural Networks for YouTube
        Recommendations. RecSys 2016. Yi et al., RecSys 2019.
    """

    history: str | None = None
    alone = False

    def __init__(
        self,
        item: str,
        item_features: Sequence[str],
        num_items: int,
        features: Mapping[str, tuple[Sequence[int], str]],
        dim: int = 32,
        units: Sequence[int] = (256,),
        weight: float = 0.1,
        label: str | None = None,
        towers: tuple[keras.layers.Layer, keras.layers.Layer] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.item = item
        self.item_features = list(item_features)
        self.num_items = num_items
        self.feature_shapes = {
            name: (list(shape), dtype)
            for name, (shape, dtype) in features.items()
        }
        self.dim = dim
        self.units = list(units)
        self.weight = weight
        self.label = label
        self.roles: Mapping[str, FeatureRole] = {}
        towers = towers or (self._tower(), self._tower())
        self.query_tower, self.item_tower = towers
        self.index = BruteForceRetrieval(k=min(10, num_items))

    def _tower(self) -> keras.Sequential:
        return keras.Sequential(
            [
                *(
                    keras.layers.Dense(width, activation="relu")
                    for width in self.units
                ),
                keras.layers.Dense(self.dim, dtype="float32"),
            ]
        )

    @property
    def item_names(self) -> list[str]:
        """The item and its further features."""
        return [self.item, *self.item_features]

    def build(self, queries_shape: Any, items_shape: Any) -> None:
        """Builds the towers, and a catalogue of which nothing is known yet."""
        self._build_towers(queries_shape, items_shape)
        rows = self.num_items + 1
        self.sampling = self._state("sampling", (rows,), "float32")
        self.features = {
            name: self._state(f"catalogue_{number}", (rows, *shape), dtype)
            for number, (name, (shape, dtype)) in enumerate(
                self.feature_shapes.items()
            )
        }
        self.index.update_candidates(
            np.zeros((self.num_items, self.dim), np.float32),
            np.arange(1, rows, dtype=np.int32),
        )
        self.built = True

    def _build_towers(self, queries_shape: Any, items_shape: Any) -> None:
        self.query_tower.build(queries_shape)
        self.item_tower.build(items_shape)

    def _state(self, name: str, shape: Any, dtype: str) -> keras.Variable:
        return self.add_weight(
            name=name,
            shape=shape,
            dtype=dtype,
            initializer="zeros",
            trainable=False,
            autocast=False,
        )

    def call(self, queries: Any, items: Any, numbers: Any, weights: Any) -> Any:
        # What is unknown is no item.
        weights = ops.where(numbers > 0, ops.cast(weights, "float32"), 0.0)
        queries, items = self.query_tower(queries), self.item_tower(items)
        queries, items, numbers, weights = all_rows(
            (queries, items, numbers, weights)
        )
        losses = in_batch_softmax(
            queries, items, numbers, ops.take(self.sampling, numbers, axis=0)
        )
        total = ops.sum(weights)
        loss = ops.sum(weights * losses) / ops.where(total > 0, total, 1.0)
        self.add_loss(self.weight * loss)
        return loss

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

    def items(self, numbers: Any) -> dict[str, Any]:
        """Returns the inputs of the model that are of items.

        Args:
            numbers: Integer array `(items,)`.
        """
        further = {
            name: ops.convert_to_numpy(variable)[numbers]
            for name, variable in self.features.items()
        }
        return {self.item: np.asarray(numbers, np.int32), **further}

    def update_index(self, vectors: Any) -> None:
        """Replaces the items' vectors.

        Args:
            vectors: Array `(num_items, dim)`, that of item 1 first.
        """
        self.index.update_candidates(vectors)

    def retrieve(self, queries: Any, count: int) -> tuple[Any, Any]:
        """Returns the items whose vectors fit those of queries best.

        Args:
            queries: Tensor `(B, dim)`.
            count: How many items, at most `num_items`.

        Returns:
            Their scores and their numbers, tensors `(B, count)`, the best
            first.
        """
        self.index.k = count
        return self.index(queries)

    @property
    def vectors(self) -> Any:
        """The items' vectors in the index, a NumPy array `(num_items, dim)`."""
        return ops.convert_to_numpy(self.index.candidate_embeddings)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "item": self.item,
            "item_features": self.item_features,
            "num_items": self.num_items,
            "features": self.feature_shapes,
            "dim": self.dim,
            "units": self.units,
            "weight": self.weight,
            "label": self.label,
        }
