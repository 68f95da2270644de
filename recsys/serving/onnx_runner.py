from pathlib import Path
from typing import Any

import numpy as np

from recsys.errors import FileError
from recsys.reading import reading
from recsys.serving.request_error import RequestError
from recsys.serving.tensor_spec import Arrays
from recsys.serving.tensor_spec import Signature
from recsys.serving.tensor_spec import TensorSpec
from recsys.shown import printable

FILE = "model.onnx"
_ERRORS = 3
_DTYPES = {
    "tensor(bool)": "bool",
    "tensor(double)": "float64",
    "tensor(float)": "float32",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(string)": "string",
}


class OnnxRunner:
    """A file `model.onnx`, run by onnxruntime on the processor.

    An input that is an initializer as well may be left out of a request.

    Args:
        folder: Folder of the file.

    Raises:
        FileError: There is none, or it cannot be run.
    """

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = _ERRORS  # Defaults are worth a warning.
        # Between two batches its threads would keep their cores busy.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        with reading(folder, "an ONNX model"):
            defaults = _read_defaults(folder / FILE)
            self._session = onnxruntime.InferenceSession(
                str(folder / FILE), options, providers=["CPUExecutionProvider"]
            )
            given = [
                *self._session.get_inputs(),
                *self._session.get_overridable_initializers(),
            ]
            self._outputs = [each.name for each in self._session.get_outputs()]
            self.signatures = {
                "serving_default": Signature(
                    {
                        each.name: _spec(each, folder, defaults.get(each.name))
                        for each in sorted(given, key=lambda each: each.name)
                    },
                    {
                        each.name: _spec(each, folder)
                        for each in self._session.get_outputs()
                    },
                )
            }

    def run(self, signature: str, inputs: Arrays) -> Arrays:
        from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

        texts = {
            name: _as_texts(name, array) if array.dtype == object else array
            for name, array in inputs.items()
        }
        try:
            outputs = self._session.run(self._outputs, texts)
        except InvalidArgument as error:
            raise RequestError.at(
                "values",
                "what the model can compute with",
                printable(str(error))[:200],
            ) from None
        return dict(zip(self._outputs, outputs, strict=True))


def _read_defaults(file: Path) -> dict[str, Any]:
    import onnx

    graph = onnx.load(file).graph
    inputs = {each.name for each in graph.input}
    return {
        each.name: _as_bytes(onnx.numpy_helper.to_array(each))
        for each in graph.initializer
        if each.name in inputs
    }


def _as_bytes(array: Any) -> Any:
    """An array as requests have it: of bytes where it holds texts."""
    if array.dtype.kind not in "OUS":
        return array
    encoded = np.empty(array.size, object)
    encoded[:] = [
        text if isinstance(text, bytes) else text.encode()
        for text in array.flat
    ]
    return encoded.reshape(array.shape)


def _spec(described: Any, folder: Path, default: Any = None) -> TensorSpec:
    shape = tuple(
        size if isinstance(size, int) else None for size in described.shape
    )
    if described.type not in _DTYPES or shape[:1] != (None,):
        raise FileError.at(
            folder,
            f"{described.name!r} to have rows, and one of {[*_DTYPES]}",
            f"{described.type} {described.shape}",
        )
    return TensorSpec(_DTYPES[described.type], shape, default)


def _as_texts(name: str, array: Any) -> Any:
    texts = np.empty(array.size, object)
    try:
        texts[:] = [value.decode() for value in array.flat]
    except UnicodeDecodeError:
        raise RequestError.at(name, "UTF-8 texts", "other bytes") from None
    return texts.reshape(array.shape)
