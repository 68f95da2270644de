from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from recsys.models.compact_rows import FLOAT32
from recsys.models.compact_rows import CompactRows

if TYPE_CHECKING:
    import tensorflow as tf


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
