"""Reads rows by index, and adds rows up by index.

`keras.ops` has both, but guards against indices that do not occur here. On
PyTorch these guards, and an index for every single number, cost many times
what the copies themselves cost; on JAX as much as the copies.
"""

import keras
from keras import ops

from keras_moe.types import IntegerLike
from keras_moe.types import Tensor

if keras.backend.backend() == "torch":
    import torch
elif keras.backend.backend() == "jax":
    from jax import numpy as jnp
else:
    import tensorflow as tf


def gather(inputs: Tensor, rows: Tensor) -> Tensor:
    """Returns `inputs[rows]`.

    Args:
        inputs: Tensor `(N, ...)`.
        rows: Int32 tensor of any shape, from 0 to `N - 1`.

    Returns:
        Tensor `(*rows.shape, ...)`.

    Example:
        >>> rows = gather(np.array([5.0, 6.0]), np.array([[1, 0], [1, 1]]))
        >>> keras.ops.convert_to_numpy(rows).tolist()
        [[6.0, 5.0], [6.0, 6.0]]
    """
    if keras.backend.backend() == "tensorflow":
        return tf.gather(inputs, rows)
    if keras.backend.backend() == "jax":
        return jnp.take(jnp.asarray(inputs), rows, axis=0, mode="clip")
    inputs, rows = ops.convert_to_tensor(inputs), ops.convert_to_tensor(rows)
    # One list of rows, (rows, ...), then as many axes as `rows` has.
    taken = torch.index_select(inputs, 0, torch.reshape(rows, (-1,)))
    return torch.reshape(taken, (*rows.shape, *inputs.shape[1:]))


def segment_sum(values: Tensor, rows: Tensor, num_rows: IntegerLike) -> Tensor:
    """Returns zeros `(num_rows, D)` with `values[i]` added to row `rows[i]`.

    Args:
        values: Tensor `(M, D)`.
        rows: Int32 tensor `(M,)`, from 0 to `num_rows - 1`.
        num_rows: Integer or integer tensor.

    Example:
        >>> sums = segment_sum(np.array([[1.0], [2.0]]), np.array([1, 1]), 3)
        >>> keras.ops.convert_to_numpy(sums).ravel().tolist()
        [0.0, 3.0, 0.0]
    """
    if keras.backend.backend() != "torch":
        return ops.segment_sum(values, rows, num_segments=num_rows)
    values, rows = ops.convert_to_tensor(values), ops.convert_to_tensor(rows)
    zeros = ops.zeros((num_rows, values.shape[1]), values.dtype)
    return torch.index_add(zeros, 0, rows, values)


def scatter(values: Tensor, places: Tensor, size: IntegerLike) -> Tensor:
    """Returns zeros `(size,)` with `values[i]` at `places[i]`.

    Only where shapes may depend on values, see
    `keras_moe.ops._tracing.has_dynamic_shapes`.

    Args:
        values: Tensor `(M,)`.
        places: Int32 tensor `(M,)`, from 0 to `size - 1`, no two the same.
        size: Integer or integer tensor.
    """
    if keras.backend.backend() == "torch":
        zeros = ops.zeros((size,), values.dtype)
        return torch.scatter(zeros, 0, ops.cast(places, "int64"), values)
    return tf.scatter_nd(places[:, None], values, [size])


def true_places(flags: Tensor) -> Tensor:
    """Int32 `(M,)`, where a boolean tensor is true once it is flat.

    Only where shapes may depend on values, see
    `keras_moe.ops._tracing.has_dynamic_shapes`.
    """
    (places,) = ops.nonzero(ops.reshape(flags, (-1,)))
    return ops.cast(places, "int32")


def stable_argsort(keys: Tensor) -> Tensor:
    """Int32 `(M,)`, the order of integers `(M,)`; equal ones keep theirs.

    Only where shapes may depend on values, see
    `keras_moe.ops._tracing.has_dynamic_shapes`.
    """
    if keras.backend.backend() == "torch":
        return ops.cast(torch.argsort(keys, stable=True), "int32")
    return tf.argsort(keys, stable=True)
