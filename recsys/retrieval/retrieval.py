from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Self

import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import FloatLike
from keras_moe.types import Shape
from keras_moe.types import Tensor
from recsys.config.retrieval_losses import IN_SCORES
from recsys.config.retrieval_losses import IN_TRAINING
from recsys.distribution.process_group import all_rows
from recsys.retrieval.indexed_items import IndexedItems
from recsys.retrieval.losses import RetrievalLoss
from recsys.retrieval.losses import create_loss
from recsys.retrieval.losses.full_softmax import FullSoftmax
from recsys.retrieval.negatives import Items
from recsys.retrieval.negatives import hardest
from recsys.retrieval.negatives import score
from recsys.retrieval.popularity_score import log_shares
from recsys.retrieval.popularity_score import with_log_share
from recsys.retrieval.popularity_score import with_one

# Beside the features, what a model is given while it is trained.
ROW_WEIGHTS = "/retrieval"
# Where rows of a batch share queries: of each row, which query, and its item.
ROW_QUERIES = "/retrieval_queries"
ROW_ITEMS = "/retrieval_items"
# What a history calls the loss, without its weight.
RETRIEVAL_LOSS = "retrieval_loss"
# What a formula calls the dot product that items are retrieved by.
RETRIEVAL = "retrieval"


@keras.saving.register_keras_serializable(package="recsys")
class Retrieval(IndexedItems):
    """Two towers, of queries and of items, with a catalogue of the items.

    The vector of a query, <u, ·>, is large for the items that it is to be
    answered with. The towers see what the ranker sees of features; they are
    trained by a loss of `recsys.retrieval.losses`, whose mean over the rows
    that count is added to the model's. With `vectors`, a tower does not see
    the id of that name: the id has a free vector p, which is added to what the
    tower makes of the other features f, with D = `dim`,

        u = tower(f) + √D p

    and the mean over the same rows of `penalty` (|√D p_query|² + |√D p_item|²)
    is added to the loss. √D lets vectors move as fast as dense layers under
    Adam, whose steps are as long for all weights (Vaswani et al. 2017, section
    3.4).

    Args:
        item: As that of `IndexedItems`, like the next three.
        item_features: Further features of the item.
        num_items: Integer, how many items there are.
        features: The shapes and dtypes of these features.
        dim: Integer, width of both towers' vectors. Defaults to 32.
        units: Integers, the hidden widths of each tower. Defaults to `(256,)`.
        weight: Float, weight of the loss. Defaults to 0.1.
        label: Binary task whose label is 1 in the rows that count; all rows
            do with `None` (default).
        correction: How scores account for q, the share of rows with an item:
            with `"training"` (default) the vectors have to learn how popular
            an item is; with `"scores"`, log q is part of the score that items
            are retrieved by, <u, v> + log q, and is not learned: v has one
            number more then, log q, and u a 1. In either case the softmax
            losses subtract in training the logarithm of how often an item is
            a candidate, such as log q for the items of a batch.
        vectors: By name of an id, that of the item or of the query, a layer
            that looks up its free vectors, `dim` wide. None by default.
        penalty: Float, weight of the squared norms of `vectors` in the loss.
            Defaults to 0.
        loss: Loss that the towers are trained by; the softmax over the items
            of the batch with `None` (default).
        towers: The query tower and the item tower of a class derived from
            this one; dense layers with `None` (default).
        alone: Boolean, whether the tasks are not trained, so that items are
            ranked by the retrieval. Defaults to `False`.
        **kwargs: `name`, `trainable`, `dtype`.

    Attributes:
        history: Feature that the query tower takes as it is encoded; `None`
            where it takes the vectors of all features of the query.
        user_features: Features that it takes beside the history.

    Call arguments:
        queries: Tensor `(B, width)`, what the query tower sees; `None` where
            that is nothing.
        items: Tensor `(B, width)`, the same of the item tower.
        numbers: Integer tensor `(B,)`, the items.
        weights: Float tensor `(B,)`, how much each row counts.
        query_ids: Integer tensor `(B,)`, the ids of the query that has free
            vectors; `None` for none.
        drawn: Integer tensor `(N,)`, the items that `draw` has returned;
            `None` (default) for none.
        drawn_items: Tensor `(N, width)`, what the item tower sees of them;
            `None` where that is nothing.

    Returns:
        Float32 scalar, the loss without its weight.

    References:
        Covington, Adams, Sargin. Deep Neural Networks for YouTube
        Recommendations. RecSys 2016. Yi et al., RecSys 2019. Koren, Bell,
        Volinsky. Matrix Factorization Techniques for Recommender Systems.
        IEEE Computer 2009, equation 2, for free vectors and their penalty.
    """

    history: str | None = None
    user_features: Sequence[str] = ()

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
        correction: str = IN_TRAINING,
        vectors: Mapping[str, keras.layers.Layer] | None = None,
        penalty: float = 0.0,
        loss: RetrievalLoss | None = None,
        towers: tuple[keras.layers.Layer, keras.layers.Layer] | None = None,
        alone: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(item, item_features, num_items, features, **kwargs)
        self.dim = dim
        self.units = list(units)
        self.weight = weight
        self.label = label
        self.correction = correction
        self.id_vectors = dict(vectors or {})
        self.penalty = penalty
        self.alone = alone
        self.loss = loss or create_loss("softmax", {})
        self.negatives = self.loss.negatives_in(num_items)
        self.seed = (
            keras.random.SeedGenerator() if self.negatives.draws else None
        )
        towers = towers or (self._tower(), self._tower())
        self.query_tower, self.item_tower = towers

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
    def query_id(self) -> str | None:
        """The id of the query that has free vectors."""
        names = [name for name in self.id_vectors if name != self.item]
        return names[0] if names else None

    @property
    def width(self) -> int:
        """Width of the vectors that are compared."""
        return self.dim + (self.correction == IN_SCORES)

    @property
    def query_variables(self) -> list[keras.Variable]:
        """The layers of the query vectors."""
        variables = list(self.query_tower.variables)
        if self.query_id is not None:
            variables += self.id_vectors[self.query_id].variables
        return variables

    def build(self, queries_shape: Shape, items_shape: Shape) -> None:
        """Builds the towers, and a catalogue of which nothing is known yet."""
        self._build_towers(queries_shape, items_shape)
        self.build_catalogue(self.width)
        self.built = True

    def _build_towers(self, queries_shape: Shape, items_shape: Shape) -> None:
        shapes = queries_shape, items_shape
        for tower, shape in zip(
            (self.query_tower, self.item_tower), shapes, strict=True
        ):
            if shape[-1]:  # Else there is nothing for it to see.
                tower.build(shape)
        for layer in self.id_vectors.values():
            layer.build((None,))

    def draw(self) -> Tensor | None:
        """Returns the items that a batch is compared with beside its own.

        Returns:
            Int32 tensor `(N,)`; `None` if there are none.
        """
        return self.negatives.draw(self.seed) if self.negatives.draws else None

    def call(
        self,
        queries: Tensor | None,
        items: Tensor | None,
        numbers: Tensor,
        weights: Tensor,
        query_ids: Tensor | None = None,
        drawn: Tensor | None = None,
        drawn_items: Tensor | None = None,
    ) -> Tensor:
        # What is unknown is no item.
        weights = ops.where(numbers > 0, ops.cast(weights, "float32"), 0.0)
        free_queries = self._free(self.query_id, query_ids, training=True)
        free_items = self._free(self.item, numbers, training=True)
        queries = self._scaled(_sum(self.query_tower, queries, free_queries))
        items = self._unit(_sum(self.item_tower, items, free_items))
        norms = _squares(free_queries) + _squares(free_items)
        norms = ops.zeros_like(weights) + norms
        queries, items, numbers, weights, norms = all_rows(
            (queries, items, numbers, weights, norms)
        )
        losses = self._row_losses(queries, items, numbers, drawn, drawn_items)
        return self._mean_loss(losses, norms, weights)

    @property
    def shares_queries(self) -> bool:
        """Whether `loss_of_pairs` has the loss of rows that share queries."""
        is_full = isinstance(self.loss, FullSoftmax)
        return is_full and self.loss.hard_negatives is None

    def loss_of_pairs(
        self,
        queries: Tensor | None,
        query_ids: Tensor,
        rows: tuple[Tensor, Tensor, Tensor],
        items: Tensor | None,
    ) -> Tensor:
        """Adds the loss of rows that share their queries, as a call does.

        Args:
            queries: Tensor `(Q, width)`, as in a call, for each query once.
            query_ids: Integer tensor `(Q,)`, their ids with free vectors.
            rows: For each row, which query it has, counted from 0, which item
                and how much it counts, tensors `(P,)`.
            items: Tensor `(N, width)`, what the item tower sees of all items;
                `None` where that is nothing.

        Returns:
            Float32 scalar, the loss without its weight.
        """
        assert isinstance(self.loss, FullSoftmax), "see `shares_queries`"
        places, numbers, weights = rows
        free_queries = self._free(self.query_id, query_ids, training=True)
        of_all = ops.arange(1, self.num_items + 1, dtype="int32")
        free_items = self._free(self.item, of_all)
        vectors = self._unit(_sum(self.item_tower, items, free_items))
        compared = self._compared(vectors, of_all, 0)
        queries = self._scaled(_sum(self.query_tower, queries, free_queries))
        scores = score(ops.cast(queries, "float32"), compared)
        losses = self.loss.losses_of_pairs(scores, places, numbers - 1)
        norms = ops.take(_squares(free_queries), places, axis=0)
        if free_items is not None:
            norms += ops.take(_squares(free_items), numbers - 1, axis=0)
        return self._mean_loss(losses, norms, weights)

    def _mean_loss(
        self, losses: Tensor, norms: Tensor, weights: Tensor
    ) -> Tensor:
        """Adds the weighted mean of rows' losses and penalties; the loss."""
        total = ops.sum(weights)
        total = ops.where(total > 0, total, 1.0)
        loss = ops.sum(weights * losses) / total
        norm = ops.sum(weights * norms) / total
        self.add_loss(self.weight * (loss + self.penalty * norm))
        return loss

    def _row_losses(
        self,
        queries: Tensor,
        items: Tensor,
        numbers: Tensor,
        drawn: Tensor | None,
        drawn_items: Tensor | None,
    ) -> Tensor:
        """The loss of each row of the batch, `(B,)`."""
        num_rows = ops.shape(queries)[0]
        sampled: Items | None = None
        if drawn is not None:
            free = self._free(self.item, drawn)
            vectors = self._unit(_sum(self.item_tower, drawn_items, free))
            sampled = self._compared(vectors, drawn, num_rows)
        candidates = self.negatives.candidates(
            ops.cast(queries, "float32"),
            self._compared(items, numbers, num_rows),
            sampled,
        )
        if self.loss.hard_negatives is not None:
            candidates = hardest(candidates, self.loss.hard_negatives)
        return self.loss.losses(candidates, self.num_items)

    def _compared(
        self, vectors: Tensor, numbers: Tensor, num_rows: int | Tensor
    ) -> Items:
        """Items with what is added to their scores in training."""
        shares = ops.take(self.sampling, numbers, axis=0)
        corrections = ops.zeros_like(shares)
        if self.correction == IN_SCORES:
            corrections += log_shares(numbers, self.sampling)
        if self.loss.corrects:
            counts = self.negatives.expected_counts(shares, num_rows)
            corrections -= ops.log(counts)
        return Items(ops.cast(vectors, "float32"), numbers, corrections)

    def _unit(self, vectors: Tensor) -> Tensor:
        """Vectors as scores need them: unit vectors for cosines."""
        if not (self.loss.cosines or self.loss.temperature):
            return vectors
        return ops.normalize(ops.cast(vectors, "float32"), axis=-1)

    def _scaled(self, queries: Tensor) -> Tensor:
        """Query vectors, divided by the temperature."""
        return self._unit(queries) / (self.loss.temperature or 1.0)

    def query_vectors(
        self, features: Tensor | None, ids: Tensor | None = None
    ) -> Tensor:
        """Returns what items are retrieved with, `(B, width)`.

        Args:
            features: What the query tower sees, as in a call.
            ids: The ids that have free vectors, as in a call.
        """
        free = self._free(self.query_id, ids)
        vectors = self._scaled(_sum(self.query_tower, features, free))
        return vectors if self.correction == IN_TRAINING else with_one(vectors)

    def item_vectors(self, features: Tensor | None, numbers: Tensor) -> Tensor:
        """Returns what stands for items in the index, `(B, width)`.

        Args:
            features: What the item tower sees, as in a call.
            numbers: Integer tensor `(B,)`, the items.
        """
        free = self._free(self.item, numbers)
        vectors = self._unit(_sum(self.item_tower, features, free))
        if self.correction == IN_TRAINING:
            return vectors
        return with_log_share(vectors, numbers, self.sampling)

    def _free(
        self, name: str | None, ids: Tensor | None, training: bool = False
    ) -> Tensor | None:
        """The free vectors of ids, float32 `(B, dim)`, if they have some."""
        if name not in self.id_vectors:
            return None
        rows = self.id_vectors[name](ids, training=training)
        return ops.cast(rows, "float32") * self.dim**0.5

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "dim": self.dim,
            "units": self.units,
            "weight": self.weight,
            "label": self.label,
            "correction": self.correction,
            "vectors": {
                name: keras.saving.serialize_keras_object(layer)
                for name, layer in self.id_vectors.items()
            },
            "penalty": self.penalty,
            "loss": self.loss.declaration,
            "alone": self.alone,
        }

    @classmethod
    def from_config(cls, config: Config) -> Self:
        restore = keras.saving.deserialize_keras_object
        vectors = config.get("vectors", {}).items()
        restored = {name: restore(layer) for name, layer in vectors}
        options = dict(config["loss"])
        loss = create_loss(options.pop("type"), options)
        return cls(**{**config, "vectors": restored, "loss": loss})


def _sum(
    tower: keras.layers.Layer, features: Tensor | None, free: Tensor | None
) -> Any:
    """Sum of a tower's output and free vectors, or the one that there is."""
    if features is None:
        return free
    vectors = tower(features)
    return vectors if free is None else vectors + free


def _squares(vectors: Tensor | None) -> FloatLike:
    """Squared norms `(B,)`; 0 where there are no vectors."""
    return 0.0 if vectors is None else ops.sum(ops.square(vectors), axis=-1)
