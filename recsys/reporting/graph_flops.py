"""Floating-point operations, counted from a TensorFlow graph.

TensorFlow's own profiler leaves out `Einsum`, which the experts run on.
"""

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    from keras_moe.types import Structure


def graph_flops(function: Callable[..., object], *inputs: "Structure") -> int:
    """Counts the operations of a function's products and convolutions.

    A multiplication and an addition count as two; whatever is not a product
    (activations, softmax, lookups) is not counted.

    Args:
        function: A function of tensors.
        *inputs: Arrays, or structures of them, with the shapes to count for.

    Raises:
        ValueError: A product has a dimension that is not static.

    Example:
    >>> import numpy as np
    >>> kernel = tf.ones((3, 4))
    >>> graph_flops(lambda x: x @ kernel, np.ones((2, 3), "float32"))
    48
    """
    specs = tf.nest.map_structure(
        lambda value: tf.TensorSpec(value.shape, value.dtype), inputs
    )
    # No Python statement of a model waits for a tensor.
    traced = tf.function(function, autograph=False)
    graph = traced.get_concrete_function(*specs).graph
    return sum(
        2 * _COUNTS[operation.type](operation)
        for operation in graph.get_operations()
        if operation.type in _COUNTS
    )


def _matmul(operation: tf.Operation) -> int:
    """Output entries times the length of the contracted axis."""
    transposed = operation.get_attr("transpose_a")
    return _size(operation.outputs[0]) * _contracted(operation, transposed)


def _batch_matmul(operation: tf.Operation) -> int:
    transposed = operation.get_attr("adj_x")
    return _size(operation.outputs[0]) * _contracted(operation, transposed)


def _contracted(operation: tf.Operation, transposed: bool) -> int:
    return int(operation.inputs[0].shape[-2 if transposed else -1])


def _einsum(operation: tf.Operation) -> int:
    """The product of all axes, each letter counted once."""
    equation = operation.get_attr("equation").decode()
    letters = equation.split("->")[0].split(",")
    sizes: dict[str, int] = {}
    for names, tensor in zip(letters, operation.inputs, strict=True):
        sizes |= zip(names, tensor.shape.as_list(), strict=True)
    return prod(sizes.values())


def _convolution(operation: tf.Operation) -> int:
    """Output entries times the entries of a filter."""
    height, width, channels, _ = operation.inputs[1].shape
    return _size(operation.outputs[0]) * height * width * channels


def _size(tensor: tf.Tensor) -> int:
    if not tensor.shape.is_fully_defined():
        raise ValueError(
            "The products of the function must have static shapes. "
            f"Received: {tensor.op.type} of shape {tensor.shape}"
        )
    return int(tensor.shape.num_elements())


_COUNTS: dict[str, Callable[[tf.Operation], int]] = {
    "MatMul": _matmul,
    "BatchMatMulV2": _batch_matmul,
    "BatchMatMulV3": _batch_matmul,
    "Einsum": _einsum,
    "Conv2D": _convolution,
}
