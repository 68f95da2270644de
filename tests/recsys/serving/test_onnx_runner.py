from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx import helper

from recsys.errors import FileError
from recsys.serving.request_error import RequestError
from recsys.serving.runner import load
from recsys.serving.tensor_spec import Runner
from tests.recsys.serving.client import Client
from tests.recsys.serving.onnx_models import FLOAT
from tests.recsys.serving.onnx_models import INT64
from tests.recsys.serving.onnx_models import write
from tests.recsys.serving.onnx_models import write_tiny

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    write_tiny(tmp_path)
    return load(tmp_path)


def test_signature_is_that_of_the_file(runner: Runner) -> None:
    (signature,) = runner.signatures.values()
    assert {
        name: (spec.dtype, spec.shape)
        for name, spec in signature.inputs.items()
    } == {
        "age": ("float32", (None,)),
        "film": ("string", (None,)),
        "user": ("int64", (None,)),
    }
    assert signature.inputs["age"].rows(2).tolist() == [30.0, 30.0]
    assert signature.inputs["film"].rows(1).tolist() == ["é".encode()]
    assert signature.inputs["user"].default is None
    assert set(signature.outputs) == {"watch", "title"}


def test_defaults_are_no_reason_to_warn(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_tiny(tmp_path)
    load(tmp_path)
    assert capfd.readouterr().err == ""


def test_it_answers_as_a_saved_model_does(tmp_path: Path) -> None:
    write_tiny(tmp_path / "1")
    client = Client.of(tmp_path, name="m")
    rows = [{"user": 3}, {"user": 4, "age": 1, "film": "ö"}]
    response = client.predict({"instances": rows})
    assert response.json() == {
        "predictions": [
            {"watch": 33.0, "title": "é"},
            {"watch": 5.0, "title": "ö"},
        ]
    }


def test_texts_that_are_not_utf8(tmp_path: Path) -> None:
    write_tiny(tmp_path / "1")
    client = Client.of(tmp_path, name="m")
    row = {"user": 3, "film": {"b64": "/w=="}}
    response = client.predict({"instances": [row]})
    assert response.status_code == 400
    assert response.json() == {
        "error": "film: expected UTF-8 texts. Received: other bytes"
    }


def test_values_that_the_model_refuses(runner: Runner) -> None:
    inputs = {
        name: spec.rows(1)
        for name, spec in runner.signatures["serving_default"].inputs.items()
    }
    inputs["user"] = inputs["user"].astype(np.int32)
    with pytest.raises(RequestError, match="values: expected values that"):
        runner.run("serving_default", inputs)


def test_values_that_an_operation_refuses(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a model whose sizes are not in its signature."""
    shape = np.array([0, 2])
    write(
        tmp_path,
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        {"x": (FLOAT, ["rows", "any"])},
        {"y": (FLOAT, ["rows", 2])},
        {"shape": shape, "x": np.zeros((1, 2), np.float32)},
    )
    client = Client.of(tmp_path)
    assert client.predict({"instances": [[1, 2]]}).status_code == 200
    response = client.predict({"instances": [[1, 2, 3]]})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error.startswith("values: expected values that the model can")
    assert "The input tensor cannot be reshaped" in error
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("of", [(INT64, []), (TensorProto.INT8, ["rows"])])
def test_inputs_that_no_request_can_give(tmp_path: Path, of: Any) -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    write(tmp_path, [node], {"x": of}, {"y": of}, {})
    with pytest.raises(FileError, match="'x' to have rows, and one of"):
        load(tmp_path)


def test_file_that_is_broken(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    whole = (tmp_path / "model.onnx").read_bytes()
    no_text = whole.replace(b"title", b"t\xfftle")
    for content in (b"", b"broken", whole[: len(whole) // 2], no_text):
        (tmp_path / "model.onnx").write_bytes(content)
        with pytest.raises(FileError, match="expected an ONNX model"):
            load(tmp_path)
