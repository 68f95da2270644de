"""The items of a two-stage model: their vectors, and the search among them."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from recsys.errors import ExportError
from recsys.models.compact_rows import FLOAT32
from recsys.models.compact_rows import CompactRows
from recsys.serving.index_file import FAISS_INDEXES
from recsys.serving.two_stage_runner import BRUTE_FORCE
from recsys.serving.two_stage_runner import SCANN
from recsys.serving.two_stage_runner import TFRS

if TYPE_CHECKING:
    import tensorflow as tf

LEGACY_INDEXES = (TFRS, SCANN)
INDEXES = (BRUTE_FORCE, *FAISS_INDEXES, *LEGACY_INDEXES)
_BLOCK = 4096  # Items whose vectors are floats at a time.


class BruteForce:
    """Exact search for the items of the largest dot products.

    Args:
        vectors: Float32 array `(items, D)`, of the items numbered from 1.

    Call arguments:
        queries: Float32 tensor `(batch, D)`.
        k: How many items to find, a scalar of at most `items`.

    Returns:
        Scores and int32 numbers of items, `(batch, k)` each, the best first
        and the first of equal ones.

    Attributes:
        variables: List of the variables that it searches in.
    """

    def __init__(self, vectors: np.ndarray) -> None:
        import tensorflow as tf

        self._vectors = tf.Variable(vectors, trainable=False)
        self.variables = [self._vectors]

    def __call__(
        self, queries: "tf.Tensor", k: "tf.Tensor | int"
    ) -> "tuple[tf.Tensor, tf.Tensor]":
        import tensorflow as tf

        scores = tf.linalg.matmul(queries, self._vectors, transpose_b=True)
        scores, places = tf.math.top_k(scores, k)
        return scores, places + 1


class CompactBruteForce:
    """`BruteForce` over vectors of float16, or of int8 with scales.

    A block of vectors at a time becomes floats: the score of item i is the
    scale of i times the product of the query with its integers.

    Call arguments, what is returned and attributes are those of `BruteForce`.

    Args:
        rows: Those of the items, which are numbered from 1.
    """

    def __init__(self, rows: CompactRows) -> None:
        import tensorflow as tf

        count, width = rows.values.shape
        blocks = max(1, -(-count // _BLOCK))
        size = -(-count // blocks)  # Items a block; the last has a few less.
        padded = np.zeros((blocks * size, width), rows.values.dtype)
        padded[:count] = rows.values
        self._count = count
        self._blocks = tf.Variable(
            padded.reshape(blocks, size, width), trainable=False
        )
        self.variables = [self._blocks]
        self._scales = None
        if rows.scales is not None:
            self._scales = tf.Variable(rows.scales, trainable=False)
            self.variables.append(self._scales)

    def __call__(
        self, queries: "tf.Tensor", k: "tf.Tensor | int"
    ) -> "tuple[tf.Tensor, tf.Tensor]":
        import tensorflow as tf

        blocks, size, _ = self._blocks.shape

        def step(
            number: "tf.Tensor", scores: "tf.TensorArray"
        ) -> "tuple[tf.Tensor, tf.TensorArray]":
            block = tf.gather(self._blocks, number)
            vectors = tf.cast(block, tf.float32)  # (size, D)
            products = tf.linalg.matmul(queries, vectors, transpose_b=True)
            return number + 1, scores.write(number, products)

        # Not `tf.map_fn`, which tf2onnx does not convert.
        _, products = tf.while_loop(
            lambda number, _: number < blocks,
            step,
            (
                tf.constant(0),
                tf.TensorArray(tf.float32, blocks, element_shape=[None, size]),
            ),
            maximum_iterations=blocks,
        )
        scores = tf.transpose(products.stack(), [1, 0, 2])
        batch = tf.shape(queries)[0]
        scores = tf.reshape(scores, [batch, self._padded])[:, : self._count]
        if self._scales is not None:
            scores *= self._scales
        scores, places = tf.math.top_k(scores, k)
        return scores, places + 1

    @property
    def _padded(self) -> int:
        blocks, size, _ = self._blocks.shape
        return int(blocks * size)


def create_vectors(
    vectors: np.ndarray, tables: str
) -> "Callable[[tf.Tensor], tf.Tensor]":
    """Returns a lookup of items' vectors by number, zeros for 0.

    Args:
        vectors: Float32 array `(items, D)`.
        tables: How they are held, one of
            `recsys.models.compact_rows.TABLE_TYPES`.
    """
    import tensorflow as tf

    if tables == FLOAT32:
        floats = tf.pad(tf.constant(vectors), [[1, 0], [0, 0]])
        return lambda numbers: tf.gather(floats, numbers)
    rows = CompactRows.of(np.pad(vectors, [[1, 0], [0, 0]]), tables)
    values = tf.constant(rows.values)
    if rows.scales is None:
        return lambda numbers: tf.cast(tf.gather(values, numbers), tf.float32)
    scales = tf.constant(rows.scales[:, None])
    return lambda numbers: (
        tf.cast(tf.gather(values, numbers), tf.float32)
        * tf.gather(scales, numbers)
    )


def index_inside(index: str) -> str:
    """Returns what a model searches with by itself: faiss is a server's."""
    return BRUTE_FORCE if index in FAISS_INDEXES else index


def create_index(
    name: str, vectors: np.ndarray, count: int, tables: str = FLOAT32
) -> Any:
    """Returns an index over items, which are numbered from 1.

    Args:
        name: One of `INDEXES` but those of faiss.
        vectors: Float32 array `(items, D)`.
        count: How many items it is mostly asked for.
        tables: How brute force holds the vectors, one of
            `recsys.models.compact_rows.TABLE_TYPES`. Defaults to float32.

    Raises:
        ExportError: It comes from a package that is not there, or does not
            load.
    """
    import tensorflow as tf

    if name == BRUTE_FORCE and tables != FLOAT32:
        return CompactBruteForce(CompactRows.of(vectors, tables))
    if name == BRUTE_FORCE:
        return BruteForce(vectors)
    if name == SCANN and find_spec(SCANN) is None:
        raise ExportError(
            "`index` must not be 'scann' without the package scann. "
            "Received: index='scann'"
        )
    try:
        module = import_module("tensorflow_recommenders")
    except ModuleNotFoundError:
        raise  # The command line says what to install.
    except Exception as error:  # Of whatever kind: of a library that is broken.
        raise ExportError(
            "The index must come from TensorFlow Recommenders, which does not "
            f"load beside TensorFlow {tf.__version__} (or beside a release of "
            "scann for another TensorFlow). "
            f"Received: {type(error).__name__}: {error}"
        ) from error
    top_k = module.layers.factorized_top_k
    numbers = tf.range(1, len(vectors) + 1)
    kind = top_k.BruteForce if name == TFRS else top_k.ScaNN
    return kind(k=count).index(tf.constant(vectors), numbers)
