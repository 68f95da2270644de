from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from recsys.errors import ExportError
from recsys.exporting.input_names import input_names
from recsys.exporting.saved_model import SIGNATURE
from recsys.features.fitted_feature import MISSING
from recsys.models.pruning import without_unused_experts
from recsys.models.ranker import Ranker
from recsys.retrieval.formula import Formula
from recsys.tensorflow_log import relevant_log

INDEXES = ("brute-force", "scann")
SEEN, ITEM, SCORE = "seen", "item", "score"


@dataclass(frozen=True, eq=False)
class TwoStage:
    """A SavedModel that retrieves items and ranks them, in one call.

    Its signature `serving_default` takes the features of a query by name, as
    `recsys.exporting.saved_model` does, and as `"seen"` the ids of items that
    are not to be recommended, `(batch, any)`: `""`, or -2**63 among integers,
    is behind the end of a short list, and an unknown id excludes nothing.

    It returns `(batch, top)`, the best first: `"item"`, the ids; `"score"`, the
    formula's value; each task's predictions by name, `<task>_0`, `<task>_1`,
    ... for the classes of a multiclass task. Where fewer items are left than
    are asked for, the id is `""` or -2**63, and the score the lowest of
    float32; an item whose score is not a number comes with that score, too.

    The index is TensorFlow Recommenders', which has to be imported where
    `TF_USE_LEGACY_KERAS` was 1 before TensorFlow was.

    Args:
        ranker: A trained ranker with retrieval, under TensorFlow.
        formula: What items are ranked by.
        top: How many items are returned.
        candidates: How many are ranked.
        index: `"brute-force"`, or `"scann"`, which is approximate.

    Raises:
        ExportError: A feature, or a prediction, has the name of another input
            or output.
    """

    ranker: Ranker
    formula: Formula
    top: int
    candidates: int
    index: str = INDEXES[0]

    def __post_init__(self) -> None:
        outputs = self.ranker.columns(self.ranker.no_predictions())
        for what, names, taken in (
            ("features", self.ranker.query_names, (SEEN,)),
            ("tasks", [*outputs], (ITEM, SCORE)),
        ):
            if both := set(names) & set(taken):
                raise ExportError(
                    f"The two stages must have {what} with other names than "
                    f"{', '.join(taken)}. Received: {sorted(both)}"
                )

    @property
    def inputs(self) -> dict[str, str]:
        """By feature of the query, the name of its input."""
        names = input_names([*self.ranker.query_names, SEEN])
        return {name: names[name] for name in self.ranker.query_names}

    def write(self, folder: Path) -> None:
        """Writes the SavedModel.

        Args:
            folder: Where to write, not there yet.

        Raises:
            ExportError: The index cannot be made here.
        """
        import tensorflow as tf

        ranker, retrieval = self.ranker, self.ranker.retrieval
        assert retrieval is not None, "asked for with retrieval alone"
        item, inputs = ranker.fitted[retrieval.item], self.inputs
        encoders, resources = {}, []
        for name, feature in [
            *((name, ranker.fitted[name]) for name in inputs),
            (SEEN, item),
        ]:
            encoders[name], needed = feature.raw_encoder()
            resources += needed
        vocabulary = ranker.vocabularies[retrieval.item]
        nothing = MISSING[item.raw_dtype]
        ids = tf.constant([nothing, *vocabulary.values], item.raw_dtype)
        of_items = {
            name: tf.constant(variable.numpy())
            for name, variable in retrieval.features.items()
        }
        pruned = without_unused_experts(ranker)
        size = min(self.candidates, retrieval.num_items)
        index = _index(self.index, retrieval.vectors, size)

        def candidates(queries: Any, seen: Any) -> tuple[Any, Any]:
            """Numbers `(batch, size)`, and which of them are not seen."""
            count = tf.minimum(retrieval.num_items, size + tf.shape(seen)[1])
            scores, numbers = index(queries, k=count)
            had = tf.reduce_any(
                numbers[:, :, None] == seen[:, None, :], axis=-1
            )
            scores = tf.where(had, -float("inf"), scores)
            scores, places = tf.math.top_k(scores, size)
            return tf.gather(numbers, places, batch_dims=1), scores > -float(
                "inf"
            )

        def predictions(encoded: dict[str, Any], numbers: Any) -> Any:
            """By column, what is predicted `(batch, size)`."""
            items = tf.reshape(numbers, [-1])  # (batch * size,)
            rows = {
                name: tf.repeat(values, size, axis=0)
                for name, values in encoded.items()
            }
            rows[retrieval.item] = items
            for name, values in of_items.items():
                rows[name] = tf.gather(values, items)
            columns = {}
            for task, predicted in pruned(rows, training=False).items():
                kind, classes = ranker.tasks[task], ranker.num_classes.get(task)
                for place, name in enumerate(kind.columns(task, classes)):
                    columns[name] = tf.reshape(
                        predicted[:, place], tf.shape(numbers)
                    )
            return columns

        def serve(**tensors: Any) -> dict[str, Any]:
            encoded = {
                name: encoders[name](tensors[input])
                for name, input in inputs.items()
            }
            seen = encoders[SEEN](tensors[SEEN])
            numbers, left = candidates(ranker.query_vectors(encoded), seen)
            columns = predictions(encoded, numbers)
            scores = self.formula(columns, tf.math)
            scores = tf.broadcast_to(
                tf.cast(scores, tf.float32), tf.shape(numbers)
            )
            is_score = left & ~tf.math.is_nan(scores)
            scores = tf.where(is_score, scores, tf.float32.min)
            scores, best = tf.math.top_k(scores, min(self.top, size))
            numbers = tf.where(left, numbers, 0)
            return {
                SCORE: scores,
                ITEM: tf.gather(ids, tf.gather(numbers, best, batch_dims=1)),
                **{
                    name: tf.gather(values, best, batch_dims=1)
                    for name, values in columns.items()
                },
            }

        specs = {
            input: tf.TensorSpec(
                (None,) * ranker.fitted[name].raw_rank,
                ranker.fitted[name].raw_dtype,
                input,
            )
            for name, input in inputs.items()
        }
        specs[SEEN] = tf.TensorSpec((None, None), item.raw_dtype, SEEN)
        signature = tf.function(serve).get_concrete_function(**specs)
        module = tf.Module()
        module.resources = resources
        # Not the layers: TensorFlow would describe them in the file.
        module.weights = [
            variable.value
            for variable in (*ranker.variables, *pruned.variables)
        ]
        module.index = index.variables if self.index == INDEXES[0] else index
        with relevant_log():
            tf.saved_model.save(
                module,
                str(folder),
                signatures={SIGNATURE: signature},
                options=tf.saved_model.SaveOptions(
                    namespace_whitelist=["Scann"]
                ),
            )


def _index(name: str, vectors: Any, count: int) -> Any:
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
