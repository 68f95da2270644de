from importlib import import_module
from importlib.util import find_spec
from typing import Any

from recsys.errors import ExportError
from recsys.features.fitted_feature import MISSING
from recsys.models.folding import with_folded_permutation
from recsys.models.pruning import without_unused_experts
from recsys.models.ranker import Ranker
from recsys.retrieval.formula import Formula

INDEXES = ("brute-force", "scann")
ITEM, SCORE = "item", "score"


class TwoStageModel:
    """Retrieves items and ranks them, under TensorFlow.

    Args:
        ranker: A trained ranker with retrieval.
        formula: What items are ranked by.
        top: How many items are returned.
        candidates: How many are ranked.
        index: `"brute-force"`, or `"scann"`, which is approximate.

    Call arguments:
        query: By feature of the query, a tensor of what
            `FittedFeature.encode` returns.
        seen: Int32 tensor `(batch, any)`, the numbers of the items that are
            not to be recommended, 0 for none.

    Returns:
        What `recsys.exporting.two_stage.TwoStage` says, `(batch, top)`.

    Raises:
        ExportError: The index cannot be made here.
    """

    def __init__(
        self,
        ranker: Ranker,
        formula: Formula,
        top: int,
        candidates: int,
        index: str = INDEXES[0],
    ) -> None:
        import tensorflow as tf

        retrieval = ranker.retrieval
        assert retrieval is not None, "asked for with retrieval alone"
        item = ranker.fitted[retrieval.item]
        vocabulary = ranker.vocabularies[retrieval.item]
        self.ranker = ranker
        self.formula = formula
        self.item = retrieval.item
        self.num_items = retrieval.num_items
        self.size = min(candidates, retrieval.num_items)
        self.top = min(top, self.size)
        self._ids = tf.constant(
            [MISSING[item.raw_dtype], *vocabulary.values], item.raw_dtype
        )
        self._of_items = {
            name: tf.constant(variable.numpy())
            for name, variable in retrieval.features.items()
        }
        pruned = without_unused_experts(ranker)
        # It shares the tables of the ranker, of which no more is needed.
        self._served, _ = with_folded_permutation(pruned)
        self._index = create_index(index, retrieval.vectors, self.size)
        # Not the layers: TensorFlow would describe them in the file.
        self.resources = [
            *(each.value for each in self._served.ranking_variables),
            *(each.value for each in retrieval.query_tower.variables),
            self._index.variables if index == INDEXES[0] else self._index,
        ]

    def __call__(self, query: dict[str, Any], seen: Any) -> dict[str, Any]:
        numbers, left = self._retrieve(self.ranker.query_vectors(query), seen)
        columns = self._predict(query, numbers)
        return self._best(numbers, left, columns)

    def _retrieve(self, queries: Any, seen: Any) -> tuple[Any, Any]:
        """Numbers of items `(batch, size)`, and which of them are not seen."""
        import tensorflow as tf

        count = tf.minimum(self.num_items, self.size + tf.shape(seen)[1])
        scores, numbers = self._index(queries, k=count)
        had = tf.reduce_any(numbers[:, :, None] == seen[:, None, :], axis=-1)
        scores = tf.where(had, -float("inf"), scores)
        scores, places = tf.math.top_k(scores, self.size)
        left = scores > -float("inf")
        return tf.gather(numbers, places, batch_dims=1), left

    def _predict(self, query: dict[str, Any], numbers: Any) -> dict[str, Any]:
        """By column, what is predicted `(batch, size)`."""
        import tensorflow as tf

        ranker, items = self.ranker, tf.reshape(numbers, [-1])
        rows = {
            name: tf.repeat(values, self.size, axis=0)
            for name, values in query.items()
        }
        rows[self.item] = items  # (batch * size,)
        for name, values in self._of_items.items():
            rows[name] = tf.gather(values, items)
        columns = {}
        for task, predicted in self._served(rows, training=False).items():
            kind, classes = ranker.tasks[task], ranker.num_classes.get(task)
            for place, name in enumerate(kind.columns(task, classes)):
                columns[name] = tf.reshape(
                    predicted[:, place], tf.shape(numbers)
                )
        return columns

    def _best(
        self, numbers: Any, left: Any, columns: dict[str, Any]
    ) -> dict[str, Any]:
        """The outputs for the items with the highest scores."""
        import tensorflow as tf

        scores = tf.cast(self.formula(columns, tf.math), tf.float32)
        scores = tf.broadcast_to(scores, tf.shape(numbers))
        is_score = left & ~tf.math.is_nan(scores)
        scores = tf.where(is_score, scores, tf.float32.min)
        scores, best = tf.math.top_k(scores, self.top)
        numbers = tf.gather(tf.where(left, numbers, 0), best, batch_dims=1)
        return {
            SCORE: scores,
            ITEM: tf.gather(self._ids, numbers),
            **{
                name: tf.gather(values, best, batch_dims=1)
                for name, values in columns.items()
            },
        }


def create_index(name: str, vectors: Any, count: int) -> Any:
    """The index of TensorFlow Recommenders over items numbered from 1."""
    import tensorflow as tf

    if name == "scann" and find_spec("scann") is None:
        raise ExportError(
            "`index` must be 'brute-force' where the package scann is not "
            "installed. Received: index='scann'"
        )
    try:
        module = import_module("tensorflow_recommenders")
    except ModuleNotFoundError:
        raise  # The command line says what to install.
    except Exception as error:  # Of whatever kind: of a library that is broken.
        raise ExportError(
            "The index must come from TensorFlow Recommenders, which does not "
            f"load beside TensorFlow {tf.__version__} (nor does it where a "
            "release of scann for another TensorFlow is installed). "
            f"Received: {type(error).__name__}: {error}"
        ) from error
    top_k = module.layers.factorized_top_k
    numbers = tf.range(1, len(vectors) + 1)
    kind = top_k.BruteForce if name == INDEXES[0] else top_k.ScaNN
    return kind(k=count).index(tf.constant(vectors), numbers)
