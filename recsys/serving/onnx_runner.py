import re
from pathlib import Path
from typing import TYPE_CHECKING

from recsys.errors import FileError
from recsys.errors.reading import reading
from recsys.errors.shown import printable
from recsys.private_names import onnx_errors
from recsys.serving.request_error import RequestError
from recsys.serving.tensor_spec import Arrays
from recsys.serving.tensor_spec import Signature
from recsys.serving.tensor_spec import TensorSpec

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime

FILE = "model.onnx"
_ERRORS, _FATAL = 3, 4  # What onnxruntime logs.
# Values of a batch from which on its memory is given back: otherwise the
# largest one that there has been would be kept for ever.
_LARGE = 2**16
_GIVE_BACK = ("memory.enable_memory_arena_shrinkage", "cpu:0")
# What stands before an operation's own words, and what no request is to blame
# for.
_BEFORE_PROBLEM = ("Status Message: ", " was false. ")
_NO_MEMORY = re.compile("bad_alloc|bad allocation|allocate memory")
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
        self._settings = onnxruntime.RunOptions()
        self._giving_back = onnxruntime.RunOptions()
        self._giving_back.add_run_config_entry(*_GIVE_BACK)
        for settings in (self._settings, self._giving_back):
            settings.log_severity_level = _FATAL  # All else is raised.
        with reading(folder, "an ONNX model"):
            defaults = _read_defaults(folder / FILE)
            self._session = onnxruntime.InferenceSession(
                str(folder / FILE), options, providers=["CPUExecutionProvider"]
            )
            inputs_by_name = [
                *self._session.get_inputs(),
                *self._session.get_overridable_initializers(),
            ]
            self._outputs = [
                value.name for value in self._session.get_outputs()
            ]
            self.signatures = {
                "serving_default": Signature(
                    {
                        value.name: _spec(
                            value, folder, defaults.get(value.name)
                        )
                        for value in sorted(
                            inputs_by_name, key=lambda value: value.name
                        )
                    },
                    {
                        value.name: _spec(value, folder)
                        for value in self._session.get_outputs()
                    },
                )
            }

    def run(self, signature: str, inputs: Arrays) -> Arrays:
        texts = {
            name: _as_texts(name, array) if array.dtype == object else array
            for name, array in inputs.items()
        }
        is_large = sum(array.size for array in inputs.values()) > _LARGE
        settings = self._giving_back if is_large else self._settings
        try:
            outputs = self._session.run(self._outputs, texts, settings)
        except onnx_errors() as error:
            problem = str(error)
            for mark in _BEFORE_PROBLEM:
                problem = problem.rpartition(mark)[2]
            if _NO_MEMORY.search(problem):
                raise
            raise RequestError.at(
                "values",
                "values that the model can compute with",
                printable(problem)[:200],
            ) from None
        return dict(zip(self._outputs, outputs, strict=True))


def _read_defaults(file: Path) -> Arrays:
    import onnx

    graph = onnx.load(file).graph
    inputs = {tensor.name for tensor in graph.input}
    return {
        tensor.name: _as_bytes(onnx.numpy_helper.to_array(tensor))
        for tensor in graph.initializer
        if tensor.name in inputs
    }


def _as_bytes(array: "np.ndarray") -> "np.ndarray":
    """An array as requests have it: of bytes where it holds texts."""
    import numpy as np

    if array.dtype.kind not in "OUS":
        return array
    encoded = np.empty(array.size, object)
    encoded[:] = [
        text if isinstance(text, bytes) else text.encode()
        for text in array.flat
    ]
    return encoded.reshape(array.shape)


def _spec(
    described: "onnxruntime.NodeArg",
    folder: Path,
    default: "np.ndarray | None" = None,
) -> TensorSpec:
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


def _as_texts(name: str, array: "np.ndarray") -> "np.ndarray":
    import numpy as np

    texts = np.empty(array.size, object)
    try:
        texts[:] = [value.decode() for value in array.flat]
    except UnicodeDecodeError:
        raise RequestError.at(name, "UTF-8 texts", "other bytes") from None
    return texts.reshape(array.shape)
