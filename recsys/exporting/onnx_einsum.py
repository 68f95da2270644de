"""Sums of products of two tensors as matrix products in ONNX."""

from collections.abc import Mapping
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from recsys.exporting.converter_types import Graph
from recsys.exporting.converter_types import Node


class MatrixProduct(NamedTuple):
    """Axes of two tensors for `MatMul`, and those of the product.

    A shape is `None` where nothing has to be reshaped; -1 in it is a length
    that is not known.

    Attributes:
        left: Order of the first tensor's axes, and its shape thereafter.
        right: The same of the second tensor.
        shape: The shape of what `MatMul` returns, reshaped.
        order: The order of its axes then.
    """

    left: tuple[list[int], list[int] | None]
    right: tuple[list[int], list[int] | None]
    shape: list[int] | None
    order: list[int]


def matrix_product(
    equation: str, shapes: Sequence[Sequence[int]]
) -> MatrixProduct | None:
    """Reads an equation of two tensors.

    Args:
        equation: As `einsum` takes it.
        shapes: The tensors' shapes, -1 where a length is not known.

    Returns:
        `None` where it is no product of matrices.

    Example:
    >>> print(matrix_product("nd,edh->neh", [(-1, 2), (3, 2, 5)]))
    ... # doctest: +NORMALIZE_WHITESPACE
    MatrixProduct(left=([0, 1], None), right=([1, 0, 2], [2, 15]),
                  shape=[-1, 3, 5], order=[0, 1, 2])
    """
    operands, _, output = equation.replace(" ", "").partition("->")
    terms = operands.split(",")
    if len(terms) != 2 or "." in equation:
        return None
    size: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if len(set(term)) < len(term) or len(term) != len(shape):
            return None
        for letter, length in zip(term, shape, strict=True):
            size[letter] = max(length, size.get(letter, -1))
    first, second = terms
    both = [letter for letter in first if letter in second]
    batch = [letter for letter in both if letter in output]
    summed = [letter for letter in both if letter not in output]
    rows = [letter for letter in first if letter not in both]
    columns = [letter for letter in second if letter not in both]
    letters = batch + rows + columns
    left = _arrangement(first, batch, rows, summed, size)
    right = _arrangement(second, batch, summed, columns, size)
    are_single = len(rows) == len(columns) == 1
    product = None if are_single else [size[letter] for letter in letters]
    is_reshaped = any((left[1], right[1], product))
    unknown = [letter for letter in size if size[letter] < 0]
    # Reshaping leaves one length open, which is not inferred of no values.
    if sorted(letters) != sorted(output) or (is_reshaped and len(unknown) > 1):
        return None
    order = [letters.index(letter) for letter in output]
    return MatrixProduct(left, right, product, order)


def _arrangement(
    term: str,
    batch: list[str],
    rows: list[str],
    columns: list[str],
    size: Mapping[str, int],
) -> tuple[list[int], list[int] | None]:
    """The order of a tensor's axes, and its shape, for `MatMul`."""
    order = [term.index(letter) for letter in batch + rows + columns]
    if len(rows) == len(columns) == 1:
        return order, None
    lengths = [[size[letter]] for letter in batch]
    lengths += [[size[letter] for letter in group] for group in (rows, columns)]
    return order, [-1 if -1 in group else prod(group) for group in lengths]


def convert_einsum(graph: Graph, node: Node, name: str, args: object) -> None:
    """Converts a sum of products of TensorFlow to a matrix product.

    Onnxruntime multiplies by a constant matrix several times faster than its
    `Einsum` does, and what tf2onnx would rewrite it to fails for a batch
    without rows. What is no matrix product stays an `Einsum`.

    Args:
        graph: The graph of tf2onnx, which is changed.
        node: The node in it.
        name: Its name.
        args: Not used.
    """
    equation = node.get_attr_str("equation")
    shapes = [graph.get_shape(value) for value in node.input]
    product = None
    if None not in shapes:
        product = matrix_product(equation, shapes)
    if product is None:
        for attribute in {*node.attr} - {"equation"}:
            del node.attr[attribute]
        return
    operands = [
        _arranged(graph, value, *arrangement)
        for value, arrangement in zip(
            node.input, (product.left, product.right), strict=True
        )
    ]
    multiplied = graph.make_node("MatMul", operands).output[0]
    result = _reshaped(graph, multiplied, product.shape)
    outputs = node.output
    shape, dtype = graph.get_shape(outputs[0]), graph.get_dtype(outputs[0])
    graph.remove_node(name)
    graph.make_node(
        "Transpose",
        [result],
        attr={"perm": product.order},
        name=name,
        outputs=outputs,
        shapes=[shape],
        dtypes=[dtype],
    )


def _arranged(
    graph: Graph, value: str, order: list[int], shape: list[int] | None
) -> str:
    attributes = {"perm": order}
    ordered = graph.make_node("Transpose", [value], attr=attributes).output[0]
    return _reshaped(graph, ordered, shape)


def _reshaped(graph: Graph, value: str, shape: list[int] | None) -> str:
    if shape is None:
        return value
    (constant,) = graph.make_consts([np.array(shape)])
    return graph.make_node("Reshape", [value, constant.output[0]]).output[0]
