"""A sparse matrix times a dense one."""

from typing import Any

import keras
from keras import ops

if keras.backend.backend() == "torch":
    import torch


def sparse_matmul(
    rows: Any, columns: Any, values: Any, dense: Any, num_rows: Any
) -> Any:
    """Multiplies a sparse matrix, its entries sorted by row, by a dense one.

    Only where shapes may depend on values, see
    `keras_moe.ops._tracing.has_dynamic_shapes`. Unlike a sum over gathered
    rows it makes no copy of them, and runs on all cores.

    Args:
        rows: Int32 `(P,)`, the row of each entry, in ascending order.
        columns: Int32 `(P,)`, from 0 to `M - 1`.
        values: Tensor `(P,)` of the type of `dense`, or `None` for ones.
        dense: Float tensor `(M, H)`.
        num_rows: Integer `R`, or integer tensor.

    Returns:
        Tensor `(R, H)`.
    """
    rows, columns, dense = map(ops.convert_to_tensor, (rows, columns, dense))
    if keras.backend.backend() == "torch":
        return _on_torch(rows, columns, values, dense, num_rows)
    return _on_tensorflow(rows, columns, values, dense, num_rows)


def _on_torch(
    rows: Any, columns: Any, values: Any, dense: Any, num_rows: Any
) -> Any:
    if not num_rows or not len(rows):
        return dense.new_zeros((num_rows, dense.shape[1]))
    counts = torch.bincount(rows, minlength=num_rows)
    return torch.nn.functional.embedding_bag(
        columns.long(),
        dense,
        counts.cumsum(0) - counts,
        mode="sum",
        per_sample_weights=values,
    )


def _on_tensorflow(
    rows: Any, columns: Any, values: Any, dense: Any, num_rows: Any
) -> Any:
    import tensorflow as tf

    # The kernel knows no smaller types.
    products = tf.cast(dense, tf.float32) if dense.dtype.size < 4 else dense
    if values is None:
        values = tf.ones(tf.shape(rows), products.dtype)
    matrix = tf.raw_ops.SparseTensorToCSRSparseMatrix(
        indices=tf.cast(tf.stack([rows, columns], axis=1), tf.int64),
        values=tf.cast(values, products.dtype),
        # Of nothing times nothing the kernel makes a crash.
        dense_shape=tf.cast(
            [tf.maximum(num_rows, 1), tf.shape(dense)[0]], tf.int64
        ),
    )
    products = tf.raw_ops.SparseMatrixMatMul(a=matrix, b=products)[:num_rows]
    products = tf.ensure_shape(products, (None, dense.shape[1]))
    return tf.cast(products, dense.dtype)
