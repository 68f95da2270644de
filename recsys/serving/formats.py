"""The formats of exported models, all in one table.

Who writes them and who runs them, the options of commands and messages go by
`FORMATS` alone.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from recsys.errors.choices import check_choice
from recsys.serving import onnx_runner
from recsys.serving import saved_model_runner
from recsys.serving.tensor_spec import Runner


class Format(NamedTuple):
    """A format, described without TensorFlow and Keras.

    Attributes:
        title: What messages call it.
        backend: The Keras backend under which it is written.
        file: A file that each model of the format has, and no other model.
        runner: What `recsys serve` opens the folder of a model with.
        writer: The class derived from `recsys.exporting.ExportFormat`, as
            `pkgutil.resolve_name` finds it: it stands on a higher floor.
    """

    title: str
    backend: str
    file: str
    runner: Callable[[Path], Runner]
    writer: str


FORMATS: dict[str, Format] = {
    "tf_saved_model": Format(
        "SavedModel",
        "tensorflow",
        saved_model_runner.FILE,
        saved_model_runner.SavedModelRunner,
        "recsys.exporting.saved_model:SavedModelFormat",
    ),
    "onnx": Format(
        "ONNX model",
        "tensorflow",
        onnx_runner.FILE,
        onnx_runner.OnnxRunner,
        "recsys.exporting.onnx_model:OnnxFormat",
    ),
}
DEFAULT_FORMAT = "tf_saved_model"


def known_format(name: str) -> Format:
    """Returns what is known of the format of that name.

    Raises:
        ValueError: There is no such format.
    """
    check_choice("format", name, FORMATS)
    return FORMATS[name]
