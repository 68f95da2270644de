"""A sparse matrix times a dense one."""

import keras
from keras import ops

from keras_moe.private_names import multiply_sparse
from keras_moe.types import IntegerLike
from keras_moe.types import Tensor

if keras.backend.backend() == "torch":
    import torch


def sparse_matmul(
    rows: Tensor,
    columns: Tensor,
    values: Tensor | None,
    dense: Tensor,
    num_rows: IntegerLike,
) -> Tensor:
    """Multiplies a sparse matrix, its entries sorted by row, by a dense one.

    Only where shapes may depend on values, see
    `keras_moe.ops._tracing.has_dynamic_shapes`. Unlike a sum over gathered
    rows it makes no copy of them, and runs on all cores.

    Args:
        rows: Int32 `(P,)`, the row of each entry, in ascending order.
        columns: Int32 `(P,)`, from 0 to `M - 1`.
        values: Tensor `(P,)` of the type of `dense`, or `None` for ones.
        dense: Float tensor `(M, H)`.
        num_rows: Integer `N`, or integer tensor.

    Returns:
        Tensor `(N, H)`.
    """
    rows, columns, dense = map(ops.convert_to_tensor, (rows, columns, dense))
    if keras.backend.backend() == "torch":
        return _on_torch(rows, columns, values, dense, num_rows)
    return _on_tensorflow(rows, columns, values, dense, num_rows)


def _on_torch(
    rows: "torch.Tensor",
    columns: "torch.Tensor",
    values: "torch.Tensor | None",
    dense: "torch.Tensor",
    num_rows: IntegerLike,
) -> "torch.Tensor":
    if not num_rows or not len(rows):
        return dense.new_zeros((num_rows, dense.shape[1]))
    counts = torch.bincount(rows, minlength=num_rows)  # (N,)
    return torch.nn.functional.embedding_bag(
        columns.long(),
        dense,
        counts.cumsum(0) - counts,
        mode="sum",
        per_sample_weights=values,
    )


def _on_tensorflow(
    rows: Tensor,
    columns: Tensor,
    values: Tensor | None,
    dense: Tensor,
    num_rows: IntegerLike,
) -> Tensor:
    import tensorflow as tf

    # The kernel knows no smaller types.
    products = tf.cast(dense, tf.float32) if dense.dtype.size < 4 else dense
    if values is None:
        values = tf.ones(tf.shape(rows), products.dtype)
    # (N, M) times (M, H)
    products = multiply_sparse(
        tf.cast(tf.stack([rows, columns], axis=1), tf.int64),  # (P, 2)
        tf.cast(values, products.dtype),
        # Of nothing times nothing the kernel makes a crash.
        tf.cast([tf.maximum(num_rows, 1), tf.shape(dense)[0]], tf.int64),
        products,
    )[:num_rows]
    products = tf.ensure_shape(products, (None, dense.shape[1]))
    return tf.cast(products, dense.dtype)
