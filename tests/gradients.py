"""Gradients that are written once and run on every backend."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from tests.compiled import compiled


def gradient(function: Callable[..., Any], *arrays: Any) -> list[np.ndarray]:
    """The gradients of a scalar function with respect to its arguments.

    The losses that layers add in it count. A gradient that does not exist is
    an error, not a zero (but on JAX, where everything has one).
    """
    return list(gradient_function(function)(*arrays))


def gradient_function(
    function: Callable[..., Any], variables: Sequence[Any] = ()
) -> Callable[..., Sequence[np.ndarray]]:
    """Like `gradient`, for many arguments of the same shapes.

    Args:
        function: Returns a scalar.
        variables: Takes their values as its first arguments.
    """

    def with_losses(*tensors: Any) -> Any:
        count = len(variables)
        mapping = list(zip(variables, tensors[:count], strict=True))
        with keras.StatelessScope(mapping, collect_losses=True) as scope:
            value = function(*tensors[count:])
        return value + sum(scope.losses)

    differentiate = _BACKENDS[keras.backend.backend()]
    return compiled(lambda *tensors: differentiate(with_losses, tensors))


def weight_gradient(
    function: Callable[[], Any], variables: Sequence[Any]
) -> list[np.ndarray]:
    """The gradients of a scalar function with respect to variables in it."""
    values = [variable.value for variable in variables]
    return list(gradient_function(function, variables)(*values))


def _tensorflow(function: Callable[..., Any], tensors: Sequence[Any]) -> Any:
    import tensorflow as tf

    tensors = [tf.identity(tensor) for tensor in tensors]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        value = function(*tensors)
    gradients = tape.gradient(value, tensors)
    assert all(g is not None for g in gradients), "no gradient"
    return gradients


def _jax(function: Callable[..., Any], tensors: Sequence[Any]) -> Any:
    import jax

    return jax.grad(function, argnums=tuple(range(len(tensors))))(*tensors)


def _torch(function: Callable[..., Any], tensors: Sequence[Any]) -> Any:
    import torch

    tensors = [tensor.detach().requires_grad_() for tensor in tensors]
    return torch.autograd.grad(function(*tensors), tensors)


_BACKENDS = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
