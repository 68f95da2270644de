"""Reads rows by index, and adds rows up by index.

`keras.ops` has both, but guards against indices that do not occur here. On
PyTorch these guards, and an index for every single number, cost many times
what the copies themselves cost; on JAX as much as the copies.
"""

from typing import Any

import keras
from keras import ops

if keras.backend.backend() == "torch":
    import torch
elif keras.backend.backend() == "jax":
    from jax import numpy as jnp


def gather(inputs: Any, rows: Any) -> Any:
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
    taken = torch.index_select(inputs, 0, rows.reshape(-1))
    return taken.reshape(*rows.shape, *inputs.shape[1:])


def segment_sum(values: Any, rows: Any, num_rows: Any) -> Any:
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
    zeros = values.new_zeros((num_rows, values.shape[1]))
    return zeros.index_add(0, rows, values)
