import json
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from importlib import import_module
from itertools import chain
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from recsys.errors import ExportError
from recsys.exporting import onnx_sparse_matmul
from recsys.exporting.class_names import class_names
from recsys.exporting.export_format import Arrays
from recsys.exporting.export_format import ExportFormat
from recsys.exporting.onnx_conversion import converted
from recsys.exporting.onnx_int8 import keep_int8
from recsys.exporting.signature import Input
from recsys.features.onnx_graph import OnnxGraph
from recsys.features.onnx_graph import OnnxValue
from recsys.serving.onnx_runner import FILE

if TYPE_CHECKING:
    import numpy as np
    import onnx
    import tensorflow as tf

    from recsys.exporting.served_ranker import ServedRanker

_IR_VERSION = 9  # Of ONNX 1.15, as the opset.
# What NumPy's names of types are called in ONNX.
_TYPES = {"float32": "FLOAT", "int64": "INT64", "string": "STRING"}
_MOST_BYTES = 2**31 - 1  # Of a file that protobuf reads.
# What the extra `onnx` brings along.
_PACKAGES = ("onnx", "onnxruntime", "tf2onnx")


class OnnxFormat(ExportFormat):
    """A file `model.onnx` that takes raw features, of opset 20.

    It takes and returns what the SavedModel does, by the same names and with
    the same defaults; ids are looked up by `LabelEncoder` of `ai.onnx.ml`.

    What the model computes is converted by tf2onnx from what TensorFlow
    computes of encoded features, routing plan included, in which nothing
    depends on the size of a batch: exactly the (row, expert) pairs that carry
    weight are computed, each expert by a matrix product with a constant that
    onnxruntime packs once. `torch.onnx.export` refuses sizes of groups that
    depend on values. By hand is what tf2onnx does not know: the look-ups and
    texts of the raw features (`FittedFeature.encode_onnx`), the sum over
    the experts of a row (`recsys.exporting.onnx_sparse_matmul`), and matrix
    products that also work for no row (`recsys.exporting.onnx_einsum`).
    """

    def write(self, served: "ServedRanker", folder: Path) -> None:
        for package in _PACKAGES:
            import_module(package)  # Before anything else is done.
        import onnx

        _check_size(served)
        model = _model(served)
        try:
            onnx.checker.check_model(model)
        except onnx.checker.ValidationError as error:
            reason = str(error).strip().splitlines()[0]
            raise ExportError(
                "The ranker must only have operations that ONNX can compute. "
                f"Received: {reason}"
            ) from error
        folder.mkdir()
        onnx.save(model, folder / FILE)

    def load(self, folder: Path) -> "Callable[[Arrays], dict[str, np.ndarray]]":
        import onnxruntime

        session = onnxruntime.InferenceSession(
            folder / FILE, providers=["CPUExecutionProvider"]
        )
        names = [output.name for output in session.get_outputs()]

        def run(inputs: Arrays) -> "dict[str, np.ndarray]":
            outputs = session.run(None, dict(inputs))
            return dict(zip(names, outputs, strict=True))

        return run


def _check_size(served: "ServedRanker") -> None:
    size = sum(
        variable.numpy().nbytes for variable in served.ranker.ranking_variables
    )
    if size > _MOST_BYTES:
        raise ExportError(
            "An ONNX file has at most 2 GiB; the format tf_saved_model has no "
            f"such limit. Received: a model with {size:,} bytes of weights"
        )


def _model(served: "ServedRanker") -> "onnx.ModelProto":
    """The whole graph: raw features are encoded, the model is run on them."""
    from onnx import helper
    from onnx import numpy_helper

    from recsys.exporting.served_ranker import BUDGET

    raw = OnnxGraph("raw")
    encoded = {
        input: feature.encode_onnx(raw, input)
        for input, feature in served.inputs.items()
    }
    inputs = [
        OnnxValue(input, feature.raw_dtype, feature.raw_shape)
        for input, feature in served.inputs.items()
    ]
    defaults = {
        input: feature.raw_missing() for input, feature in served.inputs.items()
    }
    if served.budget is not None:
        budget = Input.of_budget(served.budget)
        inputs.append(OnnxValue(BUDGET, budget.dtype, budget.shape))
        defaults[BUDGET] = budget.default
        encoded[BUDGET] = inputs[-1:]
    encoded = _of_one_batch(raw, encoded)
    ranker, outputs = _computed(served, encoded)
    _check_names(served, outputs)
    graph = helper.make_graph(
        [
            *raw.nodes,
            *ranker.graph.node,
            *(
                helper.make_node("Identity", [value.name], [output])
                for output, value in outputs.items()
            ),
        ],
        "ranker",
        [_described(input) for input in inputs],
        [
            _described(value._replace(name=output))
            for output, value in outputs.items()
        ],
        [
            *raw.constants,
            *ranker.graph.initializer,
            # What is an input as well is its default.
            *(
                numpy_helper.from_array(default, input)
                for input, default in defaults.items()
            ),
        ],
    )
    functions = [onnx_sparse_matmul.sparse_matmul(), *raw.functions.values()]
    model = helper.make_model(
        graph,
        producer_name="keras-moe",
        ir_version=_IR_VERSION,
        functions=functions,
        opset_imports=OnnxGraph.opset_imports(),
    )
    if names := class_names(served.ranker):
        text = json.dumps(names, ensure_ascii=False)
        helper.set_model_props(model, {"classes": text})
    return model


def _of_one_batch(
    graph: OnnxGraph, encoded: Mapping[str, Sequence[OnnxValue]]
) -> dict[str, list[OnnxValue]]:
    """Repeats what has one row where others have more, or none."""
    if len(encoded) == 1:
        return {input: [*values] for input, values in encoded.items()}
    sizes = graph.add(
        "Concat",
        *(
            graph.add("Shape", values[0].name, end=1)
            for values in encoded.values()
        ),
        axis=0,
    )
    zero = graph.constant([0])
    rows = graph.add(
        "Where",
        graph.add("Equal", graph.add("ReduceMin", sizes), zero),
        zero,
        graph.add("ReduceMax", sizes),
    )

    def repeated(value: OnnxValue) -> OnnxValue:
        kept = graph.constant([1] * (len(value.shape) - 1))
        shape = graph.add("Concat", rows, kept, axis=0)
        return value._replace(name=graph.add("Expand", value.name, shape))

    return {
        input: [repeated(value) for value in values]
        for input, values in encoded.items()
    }


def _computed(
    served: "ServedRanker", encoded: Mapping[str, Sequence[OnnxValue]]
) -> "tuple[onnx.ModelProto, dict[str, OnnxValue]]":
    """The model's computation on encoded features, and its outputs."""
    from recsys.exporting.served_ranker import BUDGET

    names: list[str] = []

    def compute(*tensors: "tf.Tensor") -> "list[tf.Tensor]":
        remaining = iter(tensors)
        values = {
            input: tuple(islice(remaining, len(parts)))
            for input, parts in encoded.items()
        }
        rows = {
            input: parts if len(parts) > 1 else parts[0]
            for input, parts in values.items()
        }
        # One tensor, as a feature may have several.
        budget: Any = rows.get(BUDGET)
        outputs = served(served.by_feature(rows), budget)
        names[:] = outputs
        return list(outputs.values())

    model, outputs = converted(compute, [*chain(*encoded.values())])
    keep_int8(model, served.ranker)
    return model, dict(zip(names, outputs, strict=True))


def _check_names(served: "ServedRanker", outputs: Iterable[str]) -> None:
    """Inputs and outputs have their names in one list, unlike TensorFlow's."""
    from recsys.exporting.served_ranker import BUDGET

    both = [
        name
        for name in outputs
        if name in served.inputs
        or (name == BUDGET and served.budget is not None)
    ]
    if both:
        raise ExportError(
            "An ONNX model must not have an input and an output with the same "
            "name; the format tf_saved_model can. "
            f"Received: {both}, of the inputs {served.input_names}"
        )


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
