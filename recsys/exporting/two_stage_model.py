from typing import TYPE_CHECKING
from typing import Any

from recsys.exporting.graph_rerankers import GraphReranking
from recsys.exporting.item_index import create_index
from recsys.exporting.item_index import create_vectors
from recsys.exporting.item_index import index_inside
from recsys.exporting.served_ranker import EXPERTS
from recsys.exporting.served_ranker import ServedRanker
from recsys.features.feature import MISSING
from recsys.models.compact_rows import FLOAT32
from recsys.models.two_tower import TwoTower
from recsys.retrieval.formula import Formula
from recsys.retrieval.rerank import DIVERSITY
from recsys.retrieval.retrieval import RETRIEVAL
from recsys.serving.two_stage_runner import BRUTE_FORCE
from recsys.serving.two_stage_runner import SCANN

if TYPE_CHECKING:
    import tensorflow as tf


ITEM, SCORE = "item", "score"


class TwoStageModel:
    """Retrieves items and ranks them, under TensorFlow.

    Args:
        ranker: A trained ranker with retrieval.
        formula: What items are ranked by.
        top: How many items are returned.
        candidates: How many are ranked.
        index: One of `INDEXES`; those of faiss have brute force here.
        tables: How brute force holds the items' vectors, one of
            `recsys.models.compact_rows.TABLE_TYPES`.
        rerank: What makes the items differ from each other, a name among
            `recsys.retrieval.rerank.RERANKERS`; the score alone decides
            unless given.
        diversity: How much `rerank` counts, from 0 to 1.
        expert_weights: Whether it returns the weights of experts, too.

    Call arguments:
        query: By feature of the query, a tensor of what
            `FittedFeature.encode` returns.
        seen: Int32 tensor `(batch, any)`, the numbers of the items that are
            not to be recommended, 0 for none.

    Returns:
        What `recsys.exporting.two_stage.TwoStage` says, `(batch, top)`.

    Attributes:
        served: The ranker as it is served.
        ids: The ids of the items by their numbers; 0 is none.

    Raises:
        ExportError: The index cannot be made here.
    """

    def __init__(
        self,
        ranker: TwoTower,
        formula: Formula,
        top: int,
        candidates: int,
        index: str = BRUTE_FORCE,
        tables: str = FLOAT32,
        rerank: str | None = None,
        diversity: float = DIVERSITY,
        expert_weights: bool = False,
    ) -> None:
        import tensorflow as tf

        retrieval = ranker.retrieval
        item = ranker.fitted[retrieval.item]
        vocabulary = ranker.vocabularies[retrieval.item]
        self.ranker = ranker
        self.formula = formula
        self.item = retrieval.item
        self.num_items = retrieval.num_items
        self.size = min(candidates, retrieval.num_items)
        self.top = min(top, self.size)
        self.ids = [MISSING[item.raw_dtype], *vocabulary.values]
        self._ids = tf.constant(self.ids, item.raw_dtype)
        self._of_items = {
            name: tf.constant(variable.numpy())
            for name, variable in retrieval.features.items()
        }
        # It shares the tables of the ranker, of which no more is needed.
        self.served = ServedRanker(ranker, expert_weights)
        inside = index_inside(index)
        self._index = create_index(inside, retrieval.vectors, self.size, tables)
        # For a formula that asks for it, and for differences of items.
        self._vectors = None
        if self._needs_fits or rerank is not None:
            self._vectors = create_vectors(retrieval.vectors, tables)
        self._rerank = None
        if rerank is not None and self._vectors is not None:
            self._rerank = GraphReranking(
                rerank, diversity, self._vectors, self.top
            )
        # Not the layers: TensorFlow would describe them in the file.
        self.resources = [
            *(
                variable.value
                for variable in self.served.ranker.ranking_variables
            ),
            *(variable.value for variable in retrieval.query_variables),
            self._index if inside == SCANN else self._index.variables,
        ]

    @property
    def num_bytes(self) -> int:
        """Bytes of the weights, and of the items' vectors, with brute force."""
        import tensorflow as tf

        variables = tf.nest.flatten(self.resources)
        if self._vectors is not None:  # They are held twice.
            variables += self._index.variables
        return sum(
            variable.dtype.size * variable.shape.num_elements()
            for variable in variables
        )

    def __call__(
        self, query: "dict[str, tf.Tensor]", seen: "tf.Tensor"
    ) -> "dict[str, tf.Tensor]":
        return self._named(self.numbered(query, seen))

    def numbered(
        self, query: "dict[str, tf.Tensor]", seen: "tf.Tensor"
    ) -> "dict[str, tf.Tensor]":
        """Returns the same with numbers instead of ids.

        Args:
            query: As in a call.
            seen: As in a call.

        Returns:
            What a call returns, but for int32 numbers of items, places in
            `ids`.
        """
        queries = self.ranker.query_vectors(query)
        numbers = self._retrieve(queries, seen)
        fits = self._fits(queries, numbers) if self._needs_fits else {}
        return self._best(numbers, self._predict(query, numbers), fits)

    def rank(
        self, query: "dict[str, tf.Tensor]", numbers: "tf.Tensor"
    ) -> "dict[str, tf.Tensor]":
        """Returns the same for the candidates that it is given.

        Args:
            query: As in a call.
            numbers: Int32 tensor `(batch, size)` of items, 0 for none.
        """
        fits = {}
        if self._needs_fits:
            fits = self._fits(self.ranker.query_vectors(query), numbers)
        predicted = self._predict(query, numbers)
        return self._named(self._best(numbers, predicted, fits))

    def _named(self, outputs: "dict[str, tf.Tensor]") -> "dict[str, tf.Tensor]":
        """Outputs with ids instead of numbers."""
        import tensorflow as tf

        return {**outputs, ITEM: tf.gather(self._ids, outputs[ITEM])}

    @property
    def _needs_fits(self) -> bool:
        """Whether the formula asks for scores of the retrieval."""
        return RETRIEVAL in self.formula.used

    def _fits(
        self, queries: "tf.Tensor", numbers: "tf.Tensor"
    ) -> "dict[str, tf.Tensor]":
        """Scores of the retrieval `(batch, size)` of items."""
        import tensorflow as tf

        assert self._vectors is not None, "the formula asks for them"
        vectors = self._vectors(numbers)  # (batch, size, D)
        return {RETRIEVAL: tf.einsum("bd,bsd->bs", queries, vectors)}

    def _retrieve(self, queries: "tf.Tensor", seen: "tf.Tensor") -> "tf.Tensor":
        """Numbers of items `(batch, size)` that are not seen, 0 for none."""
        import tensorflow as tf

        count = tf.minimum(self.num_items, self.size + tf.shape(seen)[1])
        scores, numbers = self._index(queries, k=count)
        had = tf.gather(self._times_seen(seen), numbers, batch_dims=1)
        scores = tf.where(had > 0, -float("inf"), scores)
        scores, places = tf.math.top_k(scores, self.size)
        numbers = tf.gather(numbers, places, batch_dims=1)
        return tf.where(scores > -float("inf"), numbers, 0)

    def _times_seen(self, seen: "tf.Tensor") -> "tf.Tensor":
        """Counts of each seen item, int32 `(batch, 1 + items)`.

        It takes no more memory than the scores of all items, however many
        were seen.
        """
        import tensorflow as tf

        seen = tf.where(seen <= self.num_items, seen, 0)
        batch = tf.shape(seen)[0]
        rows = tf.broadcast_to(tf.range(batch)[:, None], tf.shape(seen))
        places = tf.stack([rows, seen], axis=-1)  # (batch, any, 2)
        shape = [batch, self.num_items + 1]
        return tf.scatter_nd(places, tf.ones_like(seen), shape)

    def _predict(
        self, query: "dict[str, tf.Tensor]", numbers: "tf.Tensor"
    ) -> "dict[str, tf.Tensor]":
        """Predictions `(batch, size)` by column.

        With the weights of experts, `(batch, size, n)`, where they are wanted.
        """
        import tensorflow as tf

        ranker, items = self.ranker, tf.reshape(numbers, [-1])
        if not ranker.has_trained_tasks:
            return {}  # The tasks have not been trained.
        # An ONNX graph has several tensors for some features.
        rows: dict[str, Any] = tf.nest.map_structure(
            lambda values: tf.repeat(values, self.size, axis=0), query
        )
        rows[self.item] = items  # (batch * size,)
        for name, values in self._of_items.items():
            rows[name] = tf.gather(values, items)
        outputs, columns = self.served(rows), {}
        for task, kind in ranker.tasks.items():
            names = kind.columns(task, ranker.num_classes.get(task))
            # Without a dimension for a single column.
            predicted = tf.reshape(outputs[task], [-1, self.size, len(names)])
            for place, name in enumerate(names):
                columns[name] = predicted[..., place]  # (batch, size)
            if self.served.expert_weights:
                weights = outputs[task + EXPERTS]
                columns[task + EXPERTS] = tf.reshape(
                    weights, [-1, self.size, weights.shape[-1]]
                )
        return columns

    def _best(
        self,
        numbers: "tf.Tensor",
        columns: "dict[str, tf.Tensor]",
        fits: "dict[str, tf.Tensor]",
    ) -> "dict[str, tf.Tensor]":
        """The outputs for the items with the highest scores, or reranked."""
        import tensorflow as tf

        exact = {
            name: tf.cast(values, tf.float64)
            for name, values in {**columns, **fits}.items()
        }
        values = tf.cast(self.formula(exact, tf.math), tf.float64)
        values = tf.broadcast_to(values, tf.shape(numbers))
        scores = tf.cast(values, tf.float32)
        is_score = (numbers > 0) & tf.math.is_finite(scores)
        scores = tf.where(is_score, scores, tf.float32.min)
        if self._rerank is None:
            scores, best = tf.math.top_k(scores, self.top)
        else:
            scores, order = tf.math.top_k(scores, self.size)
            places = self._rerank(
                *(
                    tf.gather(tensor, order, batch_dims=1)
                    for tensor in (values, is_score, numbers)
                )
            )
            scores = tf.gather(scores, places, batch_dims=1)
            best = tf.gather(order, places, batch_dims=1)
        numbers = tf.gather(numbers, best, batch_dims=1)
        return {
            SCORE: scores,
            ITEM: numbers,
            **{
                name: tf.gather(values, best, batch_dims=1)
                for name, values in columns.items()
            },
        }
