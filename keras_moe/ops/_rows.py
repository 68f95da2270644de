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
        return ops.take(inputs, rows, axis=0)
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
