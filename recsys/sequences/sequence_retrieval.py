from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor
from recsys.retrieval.catalogue import Catalogue
from recsys.retrieval.feature_roles import FeatureRole
from recsys.retrieval.retrieval import Retrieval
from recsys.sequences.chunked_crossentropy import chunked_crossentropy
from recsys.sequences.feature_vectors import FeatureVectors
from recsys.sequences.history_tower import HistoryTower
from recsys.sequences.item_vectors import ItemVectors
from recsys.sequences.sequence_tower import SequenceTower


@keras.saving.register_keras_serializable(package="recsys")
class SequenceRetrieval(Retrieval):
    """Retrieval by the order of what a user has had.

    The query is what a `SequenceTower` makes of the history, to each position
    of which a vector of the user's features is added; it is compared with the
    vectors that the history itself consists of. It is trained on its
    own, before the tasks: by the softmax over all items of the next one after
    each position of a user's sequence.

    Args:
        item: The id feature that says which item a row has.
        item_features: Its further features.
        num_items: Integer, how many items there are, numbered from 1.
        features: For each of `item_features`, the shape and the dtype of what
            stands for it in a batch, without the batch.
        history: The feature with a user's earlier items, oldest first.
        tower: What reads them.
        num_ids: For each item feature with ids whose vectors are added to the
            item's, how many ids there are.
        widths: For each item feature with a vector of which a linear map is
            added to the item's, its width.
        num_user_ids: For each feature of the user with ids whose vectors are
            added to those of the history, how many ids there are.
        user_widths: For each feature of the user with a vector of which a
            linear map is added to those of the history, its width.
        dim: Integer, width of the vectors. Defaults to 128.
        temperature: Float, what the cosine of query and item is divided by;
            scores are dot products with `None` (default).
        id_dropout: As that of `ItemVectors`. Defaults to 0.
        label: As that of `Retrieval`.
        alone: As that of `Retrieval`.
        **kwargs: `name`, `trainable`, `dtype`.

    References:
        Kang, McAuley. Self-Attentive Sequential Recommendation. ICDM 2018.
        Klenitskiy, Vasilev. Turning Dross Into Gold Loss: is BERT4Rec really
        better than SASRec? RecSys 2023, for the softmax over all items.
    """

    def __init__(
        self,
        item: str,
        item_features: Sequence[str],
        num_items: int,
        features: Mapping[str, tuple[Sequence[int], str]],
        history: str,
        tower: SequenceTower,
        num_ids: Mapping[str, int] = {},
        widths: Mapping[str, int] = {},
        num_user_ids: Mapping[str, int] = {},
        user_widths: Mapping[str, int] = {},
        dim: int = 128,
        temperature: float | None = None,
        id_dropout: float = 0.0,
        label: str | None = None,
        alone: bool = False,
        **kwargs: Any,
    ) -> None:
        unit = temperature is not None
        items = ItemVectors(
            num_items,
            dim,
            item,
            num_ids,
            widths,
            unit,
            id_dropout,
            name="items",
        )
        users = None
        if num_user_ids or user_widths:
            users = FeatureVectors(dim, num_user_ids, user_widths, name="users")
        super().__init__(
            item,
            item_features,
            num_items,
            features,
            dim=dim,
            units=(),
            label=label,
            towers=(
                HistoryTower(items, tower, temperature, users, name="history"),
                items,
            ),
            alone=alone,
            **kwargs,
        )
        self.history = history
        self.tower = tower
        self.num_ids = dict(num_ids)
        self.widths = dict(widths)
        self.num_user_ids = dict(num_user_ids)
        self.user_widths = dict(user_widths)
        self.user_features = [*self.num_user_ids, *self.user_widths]
        self.temperature = temperature
        self.id_dropout = id_dropout

    def _build_towers(self, queries_shape: Shape, items_shape: Shape) -> None:
        shapes = {
            name: (None, *shape)
            for name, (shape, _) in self.feature_shapes.items()
        }
        self.item_tower.build({self.item: (None,), **shapes})
        self.query_tower.build((None, self.tower.length))

    def fill(self, catalogue: Catalogue) -> None:
        super().fill(catalogue)
        self.item_tower.fill(self.features)
        seen = (self.item, *self.num_ids, *self.widths)
        self.roles = {
            **{name: catalogue.roles[name] for name in seen},
            str(self.history): FeatureRole("query", "what the tower reads"),
            **{
                name: FeatureRole("query", "the same in all rows of a user")
                for name in self.user_features
            },
        }

    def next_item_loss(
        self,
        items: Tensor,
        targets: Tensor,
        user: Mapping[str, Tensor] = {},
        training: bool | None = None,
        dtype: str = "float32",
    ) -> Tensor:
        """Returns the mean loss of the next items, a float32 scalar.

        Args:
            items: Integer tensor `(B, T)`, histories as of `HistoryTower`.
            targets: Integer tensor `(B, T)`, the item after each position; 0
                where none counts.
            user: The features of the users, as of `HistoryTower`.
            training: Boolean.
            dtype: That of the products of queries and items. Defaults to
                `"float32"`.
        """
        catalogue = self.item_tower.catalogue(training)
        queries = self.query_tower.queries(items, catalogue, user, training)
        vectors = self.item_tower.looked_for(catalogue[1:])
        # (B, T, ...) to (B T, ...).
        queries = ops.reshape(queries, (-1, self.dim))
        targets = ops.reshape(targets, (-1,))
        return chunked_crossentropy(
            queries,
            vectors,
            ops.maximum(targets - 1, 0),
            targets > 0,
            dtype=dtype,
        )

    def get_config(self) -> Config:
        config = super().get_config()
        of_towers = ("units", "weight", "correction", "vectors", "penalty")
        for name in (*of_towers, "loss"):
            del config[name]
        return {
            **config,
            "history": self.history,
            "tower": keras.saving.serialize_keras_object(self.tower),
            "num_ids": self.num_ids,
            "widths": self.widths,
            "num_user_ids": self.num_user_ids,
            "user_widths": self.user_widths,
            "temperature": self.temperature,
            "id_dropout": self.id_dropout,
            "alone": self.alone,
        }

    @classmethod
    def from_config(cls, config: Config) -> "SequenceRetrieval":
        restore = keras.saving.deserialize_keras_object
        return cls(**{**config, "tower": restore(config["tower"])})
