from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from recsys.exporting.export_format import Arrays
from recsys.exporting.export_format import ExportFormat
from recsys.exporting.onnx_file import Encoded
from recsys.exporting.onnx_file import OnnxFile
from recsys.exporting.onnx_file import check_onnx
from recsys.exporting.onnx_inputs import OnnxInputs
from recsys.exporting.signature import Input
from recsys.serving.onnx_runner import FILE
from recsys.serving.two_stage_runner import BRUTE_FORCE

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from recsys.exporting.served_ranker import ServedRanker
    from recsys.exporting.two_stage import TwoStage


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
    products that also work for no row (`recsys.exporting.onnx_einsum`). Of
    two stages, the ids of items are, too (`recsys.exporting.two_stage_onnx`).
    """

    def write(self, served: "ServedRanker", folder: Path) -> None:
        from recsys.exporting.served_ranker import BUDGET

        weights = served.ranker.ranking_variables
        check_onnx(sum(weight.numpy().nbytes for weight in weights))
        inputs = {
            input: Input.of(feature) for input, feature in served.inputs.items()
        }
        if served.budget is not None:
            inputs[BUDGET] = Input.of_budget(served.budget)

        def outputs(encoded: Encoded) -> "dict[str, tf.Tensor]":
            # One tensor, as a feature may have several.
            budget: Any = encoded.get(BUDGET)
            return served(served.by_feature(encoded), budget)

        encoders = {
            input: feature.encode_onnx
            for input, feature in served.inputs.items()
        }
        OnnxFile(OnnxInputs(inputs, encoders), outputs, served.ranker).write(
            folder
        )

    def check_index(self, index: str) -> None:
        if index != BRUTE_FORCE:
            raise ValueError(
                f"`index` must be {BRUTE_FORCE!r} with format='onnx'. "
                f"Received: index={index!r}"
            )

    def write_two_stages(self, model: "TwoStage", folder: Path) -> None:
        from recsys.exporting.two_stage_onnx import write_onnx

        write_onnx(model, folder)

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
