"""Gradients that are written once and run on every backend."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras.ops import convert_to_numpy as to_numpy


def gradient(function: Callable[..., Any], *arrays: Any) -> list[np.ndarray]:
    """The gradients of a scalar function with respect to its arguments.

    A gradient that does not exist is an error, not a zero (JAX, which has
    zeros only, excepted).
    """
    tensors = [keras.ops.convert_to_tensor(array) for array in arrays]
    gradients = _BACKENDS[keras.backend.backend()](function, tensors)
    return [to_numpy(value) for value in gradients]


def weight_gradient(
    function: Callable[[], Any], variables: Sequence[Any]
) -> list[np.ndarray]:
    """The gradients of a scalar function with respect to variables in it."""

    def with_values(*values: Any) -> Any:
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return function()

    return gradient(with_values, *[variable.value for variable in variables])


def _tensorflow(function: Callable[..., Any], tensors: list[Any]) -> Any:
    import tensorflow as tf

    tensors = [tf.identity(tensor) for tensor in tensors]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        value = function(*tensors)
    gradients = tape.gradient(value, tensors)
    assert all(g is not None for g in gradients), "no gradient"
    return gradients


def _jax(function: Callable[..., Any], tensors: list[Any]) -> Any:
    import jax

    return jax.grad(function, argnums=tuple(range(len(tensors))))(*tensors)


def _torch(function: Callable[..., Any], tensors: list[Any]) -> Any:
    import torch

    tensors = [tensor.detach().requires_grad_() for tensor in tensors]
    return torch.autograd.grad(function(*tensors), tensors)


_BACKENDS = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
