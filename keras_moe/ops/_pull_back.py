from collections.abc import Callable
from collections.abc import Sequence

import keras
from keras import ops

from keras_moe.ops._tracing import jax_platform
from keras_moe.types import Tensor


def pull_back(
    function: Callable[..., Tensor],
    args: Sequence[Tensor],
    upstream_grad: Tensor,
) -> list[Tensor]:
    """The gradient of a function, on JAX and TensorFlow, in a loop or not.

    Args:
        function: Returns a tensor for `args`.
        args: Tensors.
        upstream_grad: Tensor, the gradient of what `function` returns.

    Returns:
        A tensor of the shape and dtype of each of `args`, zero for integers.
    """
    if keras.backend.backend() == "jax":
        grads = _on_jax(function, args, upstream_grad)
    else:
        grads = _on_tensorflow(function, args, upstream_grad)
    return [
        grad if keras.backend.is_float_dtype(arg.dtype) else ops.zeros_like(arg)
        for arg, grad in zip(args, grads, strict=True)
    ]


def _on_jax(
    function: Callable[..., Tensor],
    args: Sequence[Tensor],
    upstream_grad: Tensor,
) -> Sequence[Tensor]:
    import jax

    from keras_moe.ops._canonical_convolutions import (
        with_canonical_convolutions,
    )

    def gradients(upstream_grad: Tensor, *args: Tensor) -> Sequence[Tensor]:
        return jax.vjp(function, *args)[1](upstream_grad)

    if jax_platform() == "cpu":
        gradients = with_canonical_convolutions(gradients)
    return gradients(upstream_grad, *args)


def _on_tensorflow(
    function: Callable[..., Tensor],
    args: Sequence[Tensor],
    upstream_grad: Tensor,
) -> Sequence[Tensor]:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        for arg in args:
            tape.watch(arg)
        outputs = function(*args)
    return tape.gradient(
        outputs, args, upstream_grad, tf.UnconnectedGradients.ZERO
    )
