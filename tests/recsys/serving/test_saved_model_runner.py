import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recsys.errors import FileError
from recsys.serving.request_error import RequestError
from recsys.serving.runner import load
from recsys.serving.tensor_spec import Runner

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")


def write(folder: Path, function: Any, *specs: Any, name: str = "") -> None:
    serve = tf.function(function, input_signature=specs)
    signatures = {name or "serving_default": serve}
    tf.saved_model.save(tf.Module(), str(folder), signatures)


def test_signatures_are_those_of_the_file(runner: Runner) -> None:
    assert set(runner.signatures) == {"serving_default", "twice"}
    inputs = runner.signatures["serving_default"].inputs
    assert {
        name: (spec.dtype, spec.shape) for name, spec in inputs.items()
    } == {
        "age": ("float32", (None,)),
        "film": ("string", (None,)),
        "tags": ("int64", (None, None)),
        "user": ("int64", (None,)),
    }
    assert inputs["age"].rows(2).tolist() == [30.0, 30.0]
    assert inputs["user"].default is None


def test_values_that_the_model_refuses(tmp_path: Path) -> None:
    def serve(x: tf.Tensor) -> dict[str, tf.Tensor]:
        small = tf.debugging.assert_less(x, tf.constant(5, tf.int64), "large")
        with tf.control_dependencies([small]):
            return {"y": tf.identity(x)}

    write(tmp_path, serve, tf.TensorSpec((None,), tf.int64, "x"))
    runner = load(tmp_path)
    with pytest.raises(
        RequestError, match=r"Received: assertion.*large"
    ) as raised:
        runner.run("serving_default", {"x": np.array([7])})
    assert str(raised.value).startswith("values: expected values that the")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            tf.TensorSpec((), tf.int64, "x"),
            "input 'x' to have rows",
        ),
        (tf.TensorSpec((4,), tf.int64, "x"), "input 'x' to have rows"),
        (tf.TensorSpec((None,), tf.complex64, "x"), "Received: complex64"),
    ],
)
def test_inputs_that_no_request_can_give(
    tmp_path: Path, spec: Any, message: str
) -> None:
    write(tmp_path, lambda x: {"y": x}, spec)
    with pytest.raises(FileError, match=message):
        load(tmp_path)


def test_outputs_without_rows(tmp_path: Path) -> None:
    spec = tf.TensorSpec((None,), tf.int64, "x")
    write(tmp_path, lambda x: {"y": tf.reduce_sum(x)}, spec)
    with pytest.raises(FileError, match="a row of 'y' for each of 1 rows"):
        load(tmp_path)


def test_model_without_the_default_signature(tmp_path: Path) -> None:
    spec = tf.TensorSpec((None,), tf.int64, "x")
    write(tmp_path, lambda x: {"y": x}, spec, name="other")
    message = "expected a model with the signature 'serving_default'"
    with pytest.raises(FileError, match=message):
        load(tmp_path)


def test_file_that_is_no_saved_model(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="expected a folder with one of"):
        load(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"broken")
    with pytest.raises(FileError, match="expected a TensorFlow SavedModel"):
        load(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(FileError, match="SavedModel"):
        load(tmp_path)


@pytest.mark.slow
def test_unused_packages_are_not_imported(saved_models: Path) -> None:
    script = (
        "import sys; from pathlib import Path; "
        "from recsys.serving.saved_model_runner import SavedModelRunner; "
        "SavedModelRunner(Path(sys.argv[1])); "
        "print(*({'jax', 'keras', 'tf_keras'} & {*sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(saved_models / "1")],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []
