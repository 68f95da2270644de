"""The two ONNX graphs of the demonstration."""

import numpy as np
import onnx
from onnx import TensorProto
from onnx import helper
from onnx import numpy_helper

CANDIDATES = 100


def with_inputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a model that must be given all of its inputs.

    An export has defaults of its inputs, which onnxruntime-web does not let
    one replace.

    Args:
        model: The export; changed in place.
    """
    inputs = {value.name for value in model.graph.input}
    kept = [each for each in model.graph.initializer if each.name not in inputs]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    onnx.checker.check_model(model)
    return model


def retrieval_graph(users: np.ndarray, items: np.ndarray) -> onnx.ModelProto:
    """Returns a graph that finds the items nearest to a user.

    Args:
        users: float32 `(num_users, dim)`.
        items: float32 `(num_items, dim)`.

    Returns:
        A model from `user`, int64 `(1,)`, to `items`, int64 `(1, count)`, the
        places of the items with the largest products, the largest first, and
        `similarities`, these products.
    """
    count = min(CANDIDATES, len(items))
    constants = {
        "users": users,
        "items_transposed": np.ascontiguousarray(items.T),
        "count": np.array([count], np.int64),
    }
    nodes = [
        helper.make_node("Gather", ["users", "user"], ["query"]),
        helper.make_node("MatMul", ["query", "items_transposed"], ["all"]),
        helper.make_node("TopK", ["all", "count"], ["similarities", "items"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "retrieval",
        [value("user", TensorProto.INT64, [1])],
        [
            value("items", TensorProto.INT64, [1, count]),
            value("similarities", TensorProto.FLOAT, [1, count]),
        ],
        [numpy_helper.from_array(array, n) for n, array in constants.items()],
    )
    opset = helper.make_opsetid("", 20)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
    onnx.checker.check_model(model)
    return model
