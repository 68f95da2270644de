"""Compiles layers as their users run them and times them in turn."""

import statistics
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

Function = Callable[[], Any]


def medians(
    functions: Mapping[str, Function],
    runs: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median milliseconds of each function by a clock; they take turns.

    Whatever else the machine does then falls on all of them. A timed call
    follows an untimed one of the same function, as a step follows a step in
    training: memory that a large step before gave back would be paid for by
    the next one.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(runs):
        for name, function in functions.items():
            function()
            start = clock()
            function()
            times[name].append(1e3 * (clock() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def compile_layer(
    layer: keras.layers.Layer, inputs: Sequence[np.ndarray], jit: bool = False
) -> dict[str, Function]:
    """Functions that compute `layer(*inputs)` and wait for it.

    Args:
        layer: The built layer. Its output: a tensor, or a list of them.
        inputs: Its arguments.
        jit: Whether TensorFlow compiles for XLA; JAX always does, PyTorch
            runs eagerly.

    Returns:
        `"forward"`, and `"forward_backward"`: the gradients of the sum of
        the squared outputs with respect to all inputs and trainable weights.
    """
    compile_on = {
        "tensorflow": _compile_tensorflow,
        "jax": _compile_jax,
        "torch": _compile_torch,
    }
    return compile_on[keras.backend.backend()](layer, inputs, jit)


def _loss(outputs: Any) -> Any:
    tensors = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    return sum(ops.sum(ops.square(tensor)) for tensor in tensors)


def _compile_tensorflow(
    layer: keras.layers.Layer, inputs: Sequence[np.ndarray], jit: bool
) -> dict[str, Function]:
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")  # One function is traced a shape.
    tensors = [tf.constant(array) for array in inputs]
    weights = [weight.value for weight in layer.trainable_variables]

    @tf.function(jit_compile=jit)
    def forward(*tensors: Any) -> Any:
        return layer(*tensors)

    @tf.function(jit_compile=jit)
    def gradients(*tensors: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            loss = _loss(layer(*tensors))
        return tape.gradient(loss, [*tensors, *weights])

    def then_wait(function: Any) -> None:
        function(*tensors)
        tf.test.experimental.sync_devices()

    return {
        "forward": lambda: then_wait(forward),
        "forward_backward": lambda: then_wait(gradients),
    }


def _compile_jax(
    layer: keras.layers.Layer, inputs: Sequence[np.ndarray], _: bool
) -> dict[str, Function]:
    import jax

    tensors = [jax.numpy.asarray(array) for array in inputs]
    weights = [weight.value for weight in layer.trainable_variables]
    rest = [weight.value for weight in layer.non_trainable_variables]

    def call(weights: Any, tensors: Any) -> Any:
        return layer.stateless_call(weights, rest, *tensors)[0]

    forward = jax.jit(call)
    gradients = jax.jit(jax.grad(lambda *args: _loss(call(*args)), (0, 1)))
    return {
        "forward": lambda: jax.block_until_ready(forward(weights, tensors)),
        "forward_backward": lambda: jax.block_until_ready(
            gradients(weights, tensors)
        ),
    }


def _compile_torch(
    layer: keras.layers.Layer, inputs: Sequence[np.ndarray], _: bool
) -> dict[str, Function]:
    import torch

    tensors = [ops.convert_to_tensor(array) for array in inputs]
    for tensor in tensors:
        tensor.requires_grad_(True)
    weights = [weight.value for weight in layer.trainable_variables]

    def wait() -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def forward() -> None:
        with torch.no_grad():
            layer(*tensors)
        wait()

    def gradients() -> None:
        torch.autograd.grad(
            _loss(layer(*tensors)), [*tensors, *weights], allow_unused=True
        )
        wait()

    return {"forward": forward, "forward_backward": gradients}
