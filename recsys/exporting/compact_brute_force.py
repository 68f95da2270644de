from typing import TYPE_CHECKING

import numpy as np

from recsys.models.compact_rows import CompactRows

if TYPE_CHECKING:
    import tensorflow as tf

_BLOCK = 4096  # Items whose vectors are floats at a time.


class CompactBruteForce:
    """`BruteForce` over vectors of float16, or of int8 with scales.

    A block of vectors at a time becomes floats: the score of item i is the
    scale of i times the product of the query with its integers.

    Args:
        rows: Those of the items, which are numbered from 1.

    Call arguments:
        queries: Float32 tensor `(batch, D)`.
        k: How many items to find, a scalar of at most `items`.

    Returns:
        Scores and int32 numbers of items, `(batch, k)` each, the best first
        and the first of equal ones.

    Attributes:
        variables: List of the variables that it searches in.
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

        def products(block: "tf.Tensor") -> "tf.Tensor":
            vectors = tf.cast(block, tf.float32)  # (size, D)
            return tf.linalg.matmul(queries, vectors, transpose_b=True)

        scores = tf.map_fn(
            products, self._blocks, fn_output_signature=tf.float32
        )  # (blocks, batch, size)
        scores = tf.transpose(scores, [1, 0, 2])
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
