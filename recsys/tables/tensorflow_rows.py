"""Rows of tables on TensorFlow, whose lookups have gradients of rows."""

import keras
import tensorflow as tf

from keras_moe.types import Tensor
from recsys.tables.marks import marks


def lookup(table: keras.Variable, ids: tf.Tensor) -> tf.Tensor:
    """Returns rows of a table, whose gradient is one of rows."""
    # Not `keras.ops.take`, which copies the whole table.
    return tf.nn.embedding_lookup(table.value, ids)


def whole_lookup(table: keras.Variable, ids: tf.Tensor) -> tf.Tensor:
    """Returns rows of a table, whose gradient is one of all rows.

    Where the table is trained by rows, it is one of rows: reading all of a
    variable whose rows have been written copies it.
    """
    if marks(table).trained_by_rows:
        return lookup(table, ids)
    # What makes the gradient one of all rows is `tf.reshape`, which costs
    # nothing. `tf.custom_gradient` would keep the table until the process ends.
    values = tf.reshape(tf.convert_to_tensor(table.value), table.shape)
    return tf.gather(values, ids)


def is_row_gradient(gradient: object) -> bool:
    """Returns whether a gradient is of rows, not of a whole table."""
    return isinstance(gradient, tf.IndexedSlices)


def whole(gradient: Tensor) -> tf.Tensor:
    """Returns the gradient of a table that is not trained by rows."""
    return tf.convert_to_tensor(gradient)


def summed(
    gradient: tf.IndexedSlices, table: keras.Variable
) -> tf.IndexedSlices:
    """Returns the gradient with every row once, its parts summed."""
    rows, segments = tf.unique(gradient.indices)
    sums = tf.math.unsorted_segment_sum(
        gradient.values, segments, tf.size(rows)
    )
    return tf.IndexedSlices(sums, rows)


def inner_product(
    left: tf.IndexedSlices, right: tf.IndexedSlices, table: keras.Variable
) -> tf.Tensor:
    """Returns the inner product of two gradients of the rows of a table."""
    rows, segments = tf.unique(tf.concat([left.indices, right.indices], 0))
    count, num_left = tf.size(rows), tf.shape(left.indices)[0]
    return tf.reduce_sum(
        tf.math.unsorted_segment_sum(left.values, segments[:num_left], count)
        * tf.math.unsorted_segment_sum(right.values, segments[num_left:], count)
    )


def read(variable: keras.Variable, rows: tf.Tensor) -> tf.Tensor:
    """Returns rows of a table or a slot."""
    # Not `sparse_read`, which variables of a distribution strategy lack.
    return tf.gather(_native(variable), rows)


def write(variable: keras.Variable, rows: tf.Tensor, values: tf.Tensor) -> None:
    """Replaces rows of a table or a slot, in place."""
    _native(variable).scatter_update(tf.IndexedSlices(values, rows))


def _native(variable: keras.Variable) -> tf.Tensor:
    return variable.value if isinstance(variable, keras.Variable) else variable
