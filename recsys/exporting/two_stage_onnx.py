"""Both stages as an ONNX file."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from recsys.exporting.onnx_file import Encoded
from recsys.exporting.onnx_file import OnnxFile
from recsys.exporting.onnx_file import check_onnx
from recsys.exporting.onnx_inputs import OnnxInputs
from recsys.exporting.two_stage import TwoStage
from recsys.exporting.two_stage_model import ITEM
from recsys.features.onnx_graph import OnnxGraph
from recsys.features.onnx_graph import OnnxValue
from recsys.serving.two_stage_runner import SEEN

if TYPE_CHECKING:
    import tensorflow as tf


def write_onnx(two_stage: TwoStage, folder: Path) -> None:
    """Writes the ONNX file, under TensorFlow.

    The numbers of the items become ids behind what tf2onnx converts, which
    has no texts.

    Args:
        two_stage: What to write.
        folder: Where to write, not there yet.

    Raises:
        ExportError: A name is that of an input and an output, the file would
            be too large, or ONNX has no such operations.
        ModuleNotFoundError: A package of the extra `onnx` is not there.
    """
    model = two_stage.create_model()
    check_onnx(model.num_bytes)
    retrieval, inputs = two_stage.ranker.retrieval, two_stage.inputs

    def outputs(encoded: Encoded) -> "dict[str, tf.Tensor]":
        query: Any = {name: encoded[inputs[name]] for name in inputs}
        if retrieval.history is not None:
            query[retrieval.history] = _to_front(query[retrieval.history])
        return model.numbered(query, encoded[SEEN])

    encoders = {
        input: feature.encode_onnx
        for input, feature in two_stage.features.items()
    }

    def encode_seen(graph: OnnxGraph, raw: str) -> Sequence[OnnxValue]:
        (numbers,) = two_stage.seen.encode_onnx(graph, raw)
        return [numbers._replace(shape=(None, None))]  # As the ids have.

    file = OnnxFile(
        OnnxInputs(two_stage.signature(), {**encoders, SEEN: encode_seen}),
        outputs,
        model.served.ranker,
    )
    numbers, raw_dtype = file.outputs[ITEM], two_stage.seen.raw_dtype
    dtype = "object" if raw_dtype == "string" else raw_dtype
    ids = file.graph.constant(model.ids, dtype)
    named = file.graph.add("Gather", ids, numbers.name)
    file.outputs[ITEM] = OnnxValue(named, raw_dtype, numbers.shape)
    file.write(folder)


def _to_front(numbers: "tf.Tensor") -> "tf.Tensor":
    """Lists in which nothing, -1, stands only behind the end.

    Elsewhere, it does not matter that an ONNX graph leaves it where it is; a
    tower reads the numbers in their places.

    Args:
        numbers: Int32 tensor `(batch, room)`.
    """
    import tensorflow as tf

    there = tf.cast(numbers >= 0, tf.int32)
    # Of equal ones, the first comes first.
    _, places = tf.math.top_k(there, tf.shape(numbers)[1])
    return tf.gather(numbers, places, batch_dims=1)
