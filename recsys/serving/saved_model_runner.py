import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from recsys.backend import quiet_start
from recsys.errors import FileError
from recsys.errors.reading import reading
from recsys.serving.request_error import RequestError
from recsys.serving.tensor_spec import DTYPES
from recsys.serving.tensor_spec import Arrays
from recsys.serving.tensor_spec import Signature
from recsys.serving.tensor_spec import TensorSpec

if TYPE_CHECKING:
    import numpy as np

FILE = "saved_model.pb"
_SAVED_MODEL = "a TensorFlow SavedModel"
# Signatures that TensorFlow writes for itself.
_INTERNAL = "__saved_model"


class SavedModelRunner:
    """A TensorFlow SavedModel.

    Inputs that have a default in the signature, with one row, may be left out
    of a request.

    Args:
        folder: The SavedModel.

    Raises:
        FileError: There is none, or it has an input that cannot be given in
            JSON, row by row.
    """

    def __init__(self, folder: Path) -> None:
        with quiet_start(), _without_unused():
            import tensorflow as tf

            tf.constant(0)  # Looks for devices.
        with reading(folder, _SAVED_MODEL):
            self.signatures = _read_signatures(folder)
            # The signatures belong to the object that must stay referenced.
            self._loaded = tf.saved_model.load(str(folder))
        self._tf = tf

    def run(self, signature: str, inputs: Arrays) -> Arrays:
        tf = self._tf
        tensors = {name: tf.constant(array) for name, array in inputs.items()}
        try:
            outputs = self._loaded.signatures[signature](**tensors)
        except tf.errors.InvalidArgumentError as error:
            raise RequestError.at(
                "values",
                "values that the model can compute with",
                _reason(error),
            ) from None
        return {name: tensor.numpy() for name, tensor in outputs.items()}


@contextmanager
def _without_unused() -> Iterator[None]:
    """Keeps TensorFlow from importing what no SavedModel needs.

    It works without them: importing them inside fails as if they were missing.
    JAX alone, where it is installed, would be a fifth of TensorFlow's start.
    """
    unused = ("jax", "keras", "tf_keras")
    names = [name for name in unused if name not in sys.modules]
    for name in names:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


def _read_signatures(folder: Path) -> dict[str, Signature]:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    content = SavedModel()
    content.ParseFromString((folder / FILE).read_bytes())
    return {
        name: Signature(
            {
                key: _input_spec(key, info, definition.defaults, folder)
                for key, info in sorted(definition.inputs.items())
            },
            {
                key: _spec(info)
                for key, info in sorted(definition.outputs.items())
            },
        )
        for graph in content.meta_graphs[:1]
        for name, definition in graph.signature_def.items()
        if not name.startswith(_INTERNAL)
    }


def _input_spec(
    name: str, info: Any, defaults: Any, folder: Path
) -> TensorSpec:
    import tensorflow as tf

    default = None
    if name in defaults:
        default = tf.make_ndarray(defaults[name])
        if default.shape[:1] != (1,):
            default = default[None]
    spec = _spec(info, default)
    if spec.dtype not in DTYPES or spec.shape[:1] != (None,):
        raise FileError.at(
            folder,
            f"the input {name!r} to have rows, and one of {[*DTYPES]}",
            f"{spec.dtype} {spec.shape}",
        )
    return spec


def _spec(info: Any, default: "np.ndarray | None" = None) -> TensorSpec:
    import tensorflow as tf

    shape: tuple[int | None, ...] = ()
    if not info.tensor_shape.unknown_rank:
        sizes = (dim.size for dim in info.tensor_shape.dim)
        shape = tuple(None if size < 0 else size for size in sizes)
    return TensorSpec(tf.as_dtype(info.dtype).name, shape, default)


def _reason(error: Exception) -> str:
    """The reason in an error of TensorFlow, without the place in the graph.

    The place stands before it and, indented, behind it.
    """
    lines = [line for line in str(error).splitlines() if line[:1].strip()]
    return (lines or ["no message"])[-1][:200]
