from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.checks import check_tensor
from keras_moe.ops._tracing import is_eager_on_torch
from keras_moe.ops._tracing import is_traced_by_jax
from keras_moe.types import Tensor


def check_group_sizes(
    group_sizes: Tensor, num_groups: int, num_rows: int | None
) -> None:
    """Raises an error unless these can be the sizes of groups of rows.

    Args:
        group_sizes: The argument to check.
        num_groups: Number of groups.
        num_rows: Number of rows, `None` if unknown.

    Raises:
        TypeError: If they are no integers.
        ValueError: If they are not one per group; or, where their values are
            known, one is negative or they add up to more than the rows.
    """
    check_tensor("group_sizes", group_sizes)
    dtype = keras.backend.standardize_dtype(group_sizes.dtype)
    if not keras.backend.is_int_dtype(dtype):
        raise TypeError(
            "`group_sizes` must be integers. "
            f"Received: group_sizes of dtype {dtype}"
        )
    shape = tuple(group_sizes.shape)
    if shape not in ((num_groups,), (None,)):
        raise ValueError(
            f"`group_sizes` must have one entry per expert, {num_groups}. "
            f"Received: group_sizes of shape {shape}"
        )
    sizes = _known_values(group_sizes)
    if sizes is None:
        return
    if (sizes < 0).any() or (num_rows is not None and sizes.sum() > num_rows):
        raise ValueError(
            "`group_sizes` must not be negative, and add up to at most the "
            f"number of rows, {num_rows}. Received: group_sizes={sizes}"
        )


def _known_values(tensor: Any) -> np.ndarray | None:
    """Its values, unless a graph or another device has them."""
    if isinstance(tensor, keras.KerasTensor):
        return None
    if not isinstance(tensor, np.ndarray):
        backend = keras.backend.backend()
        if backend == "tensorflow":
            import tensorflow as tf

            if not tf.executing_eagerly():
                return None
        elif is_traced_by_jax(tensor) or (
            backend == "torch"
            and not (is_eager_on_torch() and tensor.device.type == "cpu")
        ):
            return None
    return ops.convert_to_numpy(tensor)
