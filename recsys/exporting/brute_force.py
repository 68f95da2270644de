from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf


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

    def __init__(self, vectors: "np.ndarray") -> None:
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
