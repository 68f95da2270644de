"""8-bit integers of quantized experts, kept in an ONNX file.

TensorFlow computes what depends on constants alone once its graph is frozen:
the kernels `Q s` of `QuantizedExperts` reach tf2onnx as floats, of four times
the size. Here they become integers and scales again. `DequantizeLinear` has one
scale for each index of an axis, or for blocks of it, not for each expert and
output: a cast and a product do it, which onnxruntime computes once, when it
loads the file, so that a call takes no longer.
"""

from typing import TYPE_CHECKING

import numpy as np

from recsys.private_names import each_layer

if TYPE_CHECKING:
    import keras
    import onnx


def keep_int8(model: "onnx.ModelProto", ranker: "keras.Model") -> None:
    """Stores the kernels of quantized experts as their integers and scales.

    Args:
        model: What `ranker` computes, which is changed: initializers that are
            such kernels, bit for bit, are computed from smaller ones.
        ranker: The model with the banks.
    """
    from onnx import TensorProto
    from onnx import helper
    from onnx import numpy_helper

    quantized = _quantized(ranker)
    if not quantized:
        return
    graph, nodes = model.graph, []
    for floats in [*graph.initializer]:
        parts = _parts_of(floats, quantized)
        if parts is None:
            continue
        name = floats.name
        graph.initializer.remove(floats)
        for part, values in zip(("int8", "scale"), parts, strict=True):
            graph.initializer.append(
                numpy_helper.from_array(values, f"{name}/{part}")
            )
        nodes += [
            helper.make_node(
                "Cast",
                [f"{name}/int8"],
                [f"{name}/float"],
                to=TensorProto.FLOAT,
            ),
            helper.make_node("Mul", [f"{name}/float", f"{name}/scale"], [name]),
        ]
    # Nodes stand behind those that they depend on.
    model_nodes = [*graph.node]
    del graph.node[:]
    graph.node.extend([*nodes, *model_nodes])


_Parts = tuple[np.ndarray, np.ndarray]


def _quantized(ranker: "keras.Model") -> dict[bytes, _Parts]:
    """The integers `(D, H)` and scales `(1, H)` of each expert, by its kernel.

    Of experts one by one, as a file may hold some of them, in another order.
    """
    # The process that checks a file imports this one without Keras.
    from keras_moe.layers import QuantizedExperts

    quantized = {}
    for layer in each_layer(ranker):
        if isinstance(layer, QuantizedExperts):
            for kernel, scale in zip(layer.kernels, layer.scales, strict=True):
                experts = zip(
                    np.asarray(kernel), np.asarray(scale)[:, None], strict=True
                )
                for integers, scales in experts:
                    floats = integers.astype("float32") * scales
                    quantized[floats.tobytes()] = integers, scales
    return quantized


def _parts_of(
    floats: "onnx.TensorProto", quantized: dict[bytes, _Parts]
) -> _Parts | None:
    """Returns the integers and scales of an initializer of such kernels."""
    from onnx import numpy_helper

    if len(floats.dims) != 3:
        return None
    experts = [
        quantized.get(kernel.tobytes())
        for kernel in numpy_helper.to_array(floats)
    ]
    known = [expert for expert in experts if expert is not None]
    if not known or len(known) < len(experts):
        return None
    integers, scales = zip(*known, strict=True)
    return np.stack(integers), np.stack(scales)
