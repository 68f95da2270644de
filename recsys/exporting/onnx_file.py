"""An ONNX file from raw inputs to what TensorFlow computes of them."""

import json
from collections.abc import Callable
from collections.abc import Mapping
from importlib import import_module
from itertools import chain
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from typing import TypeAlias

from recsys.errors import ExportError
from recsys.exporting import onnx_sparse_matmul
from recsys.exporting.class_names import class_names
from recsys.exporting.onnx_conversion import converted
from recsys.exporting.onnx_inputs import OnnxInputs
from recsys.exporting.onnx_int8 import keep_int8
from recsys.features.onnx_graph import OnnxGraph
from recsys.features.onnx_graph import OnnxValue
from recsys.serving.onnx_runner import FILE

if TYPE_CHECKING:
    import onnx
    import tensorflow as tf

    from recsys.models.ranker import Ranker

# By the name of each input, a tensor, or a tuple where it is encoded as more.
Encoded: TypeAlias = "dict[str, tf.Tensor | tuple[tf.Tensor, ...]]"
Computation: TypeAlias = "Callable[[Encoded], dict[str, tf.Tensor]]"

_IR_VERSION = 9  # Of ONNX 1.15, as the opset.
# What NumPy's names of types are called in ONNX.
_TYPES = {"float32": "FLOAT", "int64": "INT64", "string": "STRING"}
_MOST_BYTES = 2**31 - 1  # Of a file that protobuf reads.
# What the extra `onnx` brings along.
_PACKAGES = ("onnx", "onnxruntime", "tf2onnx")


def check_onnx(size: int) -> None:
    """Checks that an ONNX file can be written, before anything else is done.

    Args:
        size: Bytes of the model's weights.

    Raises:
        ExportError: They do not fit into a file.
        ModuleNotFoundError: A package of the extra `onnx` is not there.
    """
    for package in _PACKAGES:
        import_module(package)
    if size > _MOST_BYTES:
        raise ExportError(
            "An ONNX file has at most 2 GiB; the format tf_saved_model has no "
            f"such limit. Received: a model with {size:,} bytes of weights"
        )


class OnnxFile:
    """A computation of TensorFlow with the encoding of its inputs before it.

    Attributes:
        outputs: By the name that it has in the file, each output.
        graph: Nodes behind the computation, none at first.

    Args:
        inputs: What the file takes.
        computation: From what the inputs are encoded as to the outputs by
            name.
        ranker: Whose quantized experts stay integers, and whose tasks have
            the classes that the file names.

    Raises:
        ExportError: An output has the name of an input.
    """

    def __init__(
        self, inputs: OnnxInputs, computation: Computation, ranker: "Ranker"
    ) -> None:
        self.graph = OnnxGraph("last")
        self._inputs = inputs
        self._classes = class_names(ranker)
        self._computed, self.outputs = _computed(
            computation, inputs.of_one_batch()
        )
        keep_int8(self._computed, ranker)
        names = [value.name for value in inputs.values]
        if both := [name for name in self.outputs if name in names]:
            # Unlike in TensorFlow, they stand in one list.
            raise ExportError(
                "An ONNX model must not have an input and an output with the "
                "same name; the format tf_saved_model can. "
                f"Received: {both}, of the inputs {names}"
            )

    def write(self, folder: Path) -> None:
        """Writes the file.

        Args:
            folder: Where to, not there yet.

        Raises:
            ExportError: ONNX has no such operations.
        """
        import onnx

        model = self._model()
        try:
            onnx.checker.check_model(model)
        except onnx.checker.ValidationError as error:
            reason = str(error).strip().splitlines()[0]
            raise ExportError(
                "The model must only have operations that ONNX can compute. "
                f"Received: {reason}"
            ) from error
        folder.mkdir()
        onnx.save(model, folder / FILE)

    def _model(self) -> "onnx.ModelProto":
        from onnx import helper
        from onnx import numpy_helper

        raw, computed = self._inputs.graph, self._computed.graph
        named = [
            helper.make_node("Identity", [value.name], [output])
            for output, value in self.outputs.items()
        ]
        graph = helper.make_graph(
            [*raw.nodes, *computed.node, *self.graph.nodes, *named],
            "ranker",
            [_described(input) for input in self._inputs.values],
            [
                _described(value._replace(name=output))
                for output, value in self.outputs.items()
            ],
            [
                *raw.constants,
                *computed.initializer,
                *self.graph.constants,
                # What is an input as well is its default.
                *(
                    numpy_helper.from_array(default, input)
                    for input, default in self._inputs.defaults.items()
                ),
            ],
        )
        functions = [onnx_sparse_matmul.sparse_matmul()]
        model = helper.make_model(
            graph,
            producer_name="keras-moe",
            ir_version=_IR_VERSION,
            functions=[*functions, *raw.functions.values()],
            opset_imports=OnnxGraph.opset_imports(),
        )
        if self._classes:
            text = json.dumps(self._classes, ensure_ascii=False)
            helper.set_model_props(model, {"classes": text})
        return model


def _computed(
    computation: Computation, encoded: Mapping[str, list[OnnxValue]]
) -> "tuple[onnx.ModelProto, dict[str, OnnxValue]]":
    """The computation on encoded inputs, and its outputs."""
    names: list[str] = []

    def compute(*tensors: "tf.Tensor") -> "list[tf.Tensor]":
        remaining = iter(tensors)
        parts = {
            input: tuple(islice(remaining, len(values)))
            for input, values in encoded.items()
        }
        outputs = computation(
            {
                input: tensors if len(tensors) > 1 else tensors[0]
                for input, tensors in parts.items()
            }
        )
        names[:] = outputs
        return list(outputs.values())

    model, outputs = converted(compute, [*chain(*encoded.values())])
    return model, dict(zip(names, outputs, strict=True))


def _described(value: OnnxValue) -> "onnx.ValueInfoProto":
    """An input or output of the graph.

    Each has dimensions of names of its own: onnxruntime believes that those of
    one name are equal, and an input may have one row for all of the others.
    """
    from onnx import TensorProto
    from onnx import helper

    dtype = TensorProto.DataType.Value(_TYPES[value.dtype])
    shape = [
        f"{value.name}_{axis}" if length is None else length
        for axis, length in enumerate(value.shape)
    ]
    return helper.make_tensor_value_info(value.name, dtype, shape)
