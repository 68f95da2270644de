from collections.abc import Mapping

import keras
from keras import ops

from keras_moe.types import Shape
from keras_moe.types import Tensor
from recsys.sequences.feature_vectors import FeatureVectors
from recsys.sequences.item_vectors import ItemVectors
from recsys.sequences.sequence_tower import SequenceTower


@keras.saving.register_keras_serializable(package="recsys")
class HistoryTower(keras.layers.Layer):
    """The query of a user: what the tower has at the end of a history.

    Args:
        items: The vectors of items, which a history consists of.
        tower: What reads them in their order.
        temperature: Float, what the cosine of query and item is divided by;
            scores are dot products with `None` (default).
        users: What is added to the vector of each position for the features
            of a user; nothing with `None` (default).
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        history: Integer tensor `(B, T)`, numbers of items, oldest first: 0 for
            an unknown item, -1 where there is none. An empty history is read
            as one of an unknown item.
        user: By name, what stands for each feature of `users`, `(B, ...)`.
        training: Boolean.

    Returns:
        Float32 tensor `(B, D)`.
    """

    def __init__(
        self,
        items: ItemVectors,
        tower: SequenceTower,
        temperature: float | None = None,
        users: FeatureVectors | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.items = items
        self.tower = tower
        self.temperature = temperature
        self.users = users

    def build(self, history_shape: Shape) -> None:
        if not self.tower.built:
            self.tower.build((None, None, self.items.dim))
        if self.users is not None and not self.users.built:
            self.users.build({})
        self.built = True

    def call(
        self,
        history: Tensor,
        user: Mapping[str, Tensor] = {},
        training: bool | None = None,
    ) -> Tensor:
        # A served model's lists may have room for one more, which is empty.
        history = ops.convert_to_tensor(history)[:, : self.tower.length]
        first = ops.arange(ops.shape(history)[1]) == 0
        empty = ops.logical_not(ops.any(history >= 0, axis=1, keepdims=True))
        history = ops.where(ops.logical_and(empty, first), 0, history)
        catalogue = self.items.catalogue()
        vectors = self.queries(history, catalogue, user, training)
        places = ops.arange(ops.shape(history)[1])
        last = ops.max(  # (B,)
            ops.where(history >= 0, places, ops.zeros_like(places)), axis=1
        )
        taken = ops.take_along_axis(vectors, last[:, None, None], axis=1)
        return taken[:, 0]

    def queries(
        self,
        history: Tensor,
        catalogue: Tensor,
        user: Mapping[str, Tensor] = {},
        training: bool | None = None,
    ) -> Tensor:
        """Returns the query after each position, `(B, T, D)`.

        Args:
            history: As that of a call.
            catalogue: Tensor `(num_items + 1, D)`, the vectors that it
                consists of.
            user: As that of a call.
            training: Boolean.
        """
        vectors = ops.take(catalogue, ops.maximum(history, 0), axis=0)
        if not self.items.unit:
            vectors = vectors * self.items.dim**0.5
        if self.users is not None:
            vectors = vectors + self.users(user)[:, None, :]
        outputs = self.tower(vectors, mask=history >= 0, training=training)
        if self.temperature is None:
            return outputs
        return ops.normalize(outputs, axis=-1) / self.temperature
