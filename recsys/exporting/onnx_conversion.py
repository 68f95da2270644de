"""A function of TensorFlow as an ONNX graph."""

import logging
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import TYPE_CHECKING

from recsys.exporting import onnx_sparse_matmul
from recsys.exporting.converter_types import Graph
from recsys.exporting.converter_types import Node
from recsys.exporting.onnx_einsum import convert_einsum
from recsys.features.onnx_graph import OnnxGraph
from recsys.features.onnx_graph import OnnxValue
from recsys.private_names import frozen_graph
from recsys.private_names import onnx_graph
from recsys.terminal.tensorflow_log import relevant_log

if TYPE_CHECKING:
    import onnx
    import tensorflow as tf


# The latest that tf2onnx writes. What it writes for it means the same in the
# opset of the file, `recsys.features.onnx_graph.OPSETS`.
CONVERTED_OPSET = 18


def _convert_select(graph: Graph, node: Node, name: str, args: object) -> None:
    """Converts a choice; tf2onnx multiplies by 0, which NaN does not heed."""
    node.type = "Where"
    for attribute in list(node.attr):
        del node.attr[attribute]


def _convert_log1p(graph: Graph, node: Node, name: str, args: object) -> None:
    """Converts log(1 + x), exact for small x, to log(u) x / (u - 1).

    Here u = 1 + x as it is rounded; where that is 1, x (Higham: Accuracy and
    Stability of Numerical Algorithms, 2002, section 1.14.1).
    """
    value, outputs = node.input[0], node.output
    shape, dtype = graph.get_shape(outputs[0]), graph.get_dtype(outputs[0])
    (one,) = graph.make_consts([1.0], np_type="float32")

    def add(operator: str, *inputs: str) -> str:
        added: str = graph.make_node(operator, list(inputs)).output[0]
        return added

    more = add("Add", value, one.output[0])
    ratio = add("Div", value, add("Sub", more, one.output[0]))
    logarithm = add("Mul", add("Log", more), ratio)
    is_one = add("Equal", more, one.output[0])
    graph.remove_node(name)
    graph.make_node(
        "Where",
        [is_one, value, logarithm],
        name=name,
        outputs=outputs,
        shapes=[shape],
        dtypes=[dtype],
    )


def _convert_erfc(graph: Graph, node: Node, name: str, args: object) -> None:
    """Converts what the error function leaves of 1, as GELU needs it."""
    value, outputs = node.input[0], node.output
    shape, dtype = graph.get_shape(outputs[0]), graph.get_dtype(outputs[0])
    (one,) = graph.make_consts([1.0], np_type="float32")
    error = graph.make_node("Erf", [value]).output[0]
    graph.remove_node(name)
    graph.make_node(
        "Sub",
        [one.output[0], error],
        name=name,
        outputs=outputs,
        shapes=[shape],
        dtypes=[dtype],
    )


# What tf2onnx does not convert, or not as it has to be.
_HANDLERS = {
    "Einsum": convert_einsum,
    "Erfc": _convert_erfc,
    "Log1p": _convert_log1p,
    "SelectV2": _convert_select,
    "SparseMatrixMatMul": onnx_sparse_matmul.convert_matmul,
    "SparseTensorToCSRSparseMatrix": onnx_sparse_matmul.convert_matrix,
}


def converted(
    function: "Callable[..., Sequence[tf.Tensor]]", inputs: Sequence[OnnxValue]
) -> "tuple[onnx.ModelProto, list[OnnxValue]]":
    """Converts what a function computes of tensors.

    Args:
        function: A function of TensorFlow, from a tensor for each input to a
            sequence of tensors.
        inputs: What the tensors are; those of the graph have these names.

    Returns:
        A model of opset `CONVERTED_OPSET`, and its outputs.
    """
    import tensorflow as tf
    from onnx import helper

    specifications = [
        tf.TensorSpec(tensor.shape, tensor.dtype, f"input_{index}")
        for index, tensor in enumerate(inputs)
    ]
    # No Python statement of the function waits for a tensor.
    traced = tf.function(function, autograph=False)
    concrete = traced.get_concrete_function(*specifications)
    # Behind them are what the function captures, constants and variables.
    input_tensors = [tensor.name for tensor in concrete.inputs[: len(inputs)]]
    returned = [tensor.name for tensor in concrete.outputs]
    outputs = [
        OnnxValue(f"output:{index}", tensor.dtype.name, tuple(tensor.shape))
        for index, tensor in enumerate(concrete.outputs)
    ]
    # That it leaves out what the random states become is nothing to tell.
    logging.getLogger("tf2onnx").setLevel(logging.ERROR)
    with relevant_log(), tf.device("/cpu:0"):
        frozen = frozen_graph(concrete, input_tensors, returned)
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(frozen, name="")
            model = onnx_graph(
                graph,
                _HANDLERS,
                opset=CONVERTED_OPSET,
                extra_opset=[helper.make_opsetid(OnnxGraph.DOMAIN, 1)],
                input_names=input_tensors,
                output_names=returned,
                tensors_to_rename={
                    tensor: value.name
                    for tensor, value in zip(
                        [*input_tensors, *returned],
                        [*inputs, *outputs],
                        strict=True,
                    )
                },
            ).make_model("ranker")
    for node in _nodes(model.graph):
        # In branches, tf2onnx forgets the domain.
        if node.op_type == onnx_sparse_matmul.NAME:
            node.domain = OnnxGraph.DOMAIN
    return model, outputs


def _nodes(graph: "onnx.GraphProto") -> "Iterator[onnx.NodeProto]":
    """The nodes of a graph and of all branches and loops in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)
