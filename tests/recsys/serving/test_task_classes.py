"""Classes of multiclass tasks and outputs, as a server describes them."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from recsys.errors import FileError
from recsys.serving.openapi_answer import described_answer
from recsys.serving.runner import load
from recsys.serving.task_classes import with_classes
from recsys.serving.task_classes import write_classes
from recsys.serving.tensor_spec import Signature
from recsys.serving.tensor_spec import TensorSpec
from tests.recsys.serving.client import PREDICT
from tests.recsys.serving.client import Client
from tests.recsys.serving.onnx_models import FLOAT
from tests.recsys.serving.onnx_models import INT64
from tests.recsys.serving.onnx_models import write

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

WHY = ["colour", "price", "too big"]
SHARES = np.array([[0.5, 0.25, 0.25]], np.float32)
OF_STARS = np.array([[0.25, 0.75]], np.float32)


def write_onnx(folder: Path) -> None:
    """The same shares of three reasons and two stars for every user."""
    node = helper.make_node
    write(
        folder,
        [
            node("Cast", ["user"], ["watch"], to=FLOAT),
            node("Unsqueeze", ["watch", "last"], ["row"]),
            node("Mul", ["row", "nothing"], ["zeros"]),
            node("Add", ["zeros", "why_shares"], ["why"]),
            node("Add", ["zeros", "star_shares"], ["stars"]),
        ],
        {"user": (INT64, ["users"])},
        {
            "watch": (FLOAT, ["rows"]),
            "why": (FLOAT, ["why_rows", 3]),
            "stars": (FLOAT, ["star_rows", 2]),
        },
        {
            "last": np.array([1]),
            "nothing": np.zeros(1, np.float32),
            "why_shares": SHARES,
            "star_shares": OF_STARS,
        },
    )


def write_saved_model(folder: Path) -> None:
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.int64, "user")])
    def serve(user: Any) -> dict[str, Any]:
        watch = tf.cast(user, tf.float32)
        zeros = 0 * watch[:, None]
        return {
            "watch": watch,
            "why": zeros + SHARES,
            "stars": zeros + OF_STARS,
        }

    tf.saved_model.save(tf.Module(), str(folder), serve)


WRITERS = {"onnx": write_onnx, "tf_saved_model": write_saved_model}


@pytest.fixture(scope="module", params=WRITERS)
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Client:
    folder = tmp_path_factory.mktemp("classes")
    WRITERS[request.param](folder / "1")
    write_classes(folder / "1", {"why": WHY, "stars": [0, 1], "gone": [0, 1]})
    return Client.of(folder, name="m", max_request_rows=4)


def answer_schema(client: Client) -> Any:
    operation = client.get("/openapi.json").json()["paths"][PREDICT]["post"]
    content = operation["responses"]["200"]["content"]
    return content["application/json"]["schema"]


def test_the_metadata_have_names_and_numbers(client: Client) -> None:
    content = client.get("/v1/models/m/metadata").json()
    assert content["metadata"]["classes"] == {
        "why": {"number": 3, "names": WHY, "outputs": ["why"]},
        "stars": {"number": 2, "names": [0, 1], "outputs": ["stars"]},
    }


def test_outputs_are_described(client: Client) -> None:
    rows, columns = answer_schema(client)["oneOf"]
    row = rows["properties"]["predictions"]["items"]
    assert {*row["required"]} == {"stars", "watch", "why"}
    why = row["properties"]["why"]
    assert why["items"]["type"] == "number"
    assert (why["minItems"], why["maxItems"]) == (3, 3)
    assert why["x-classes"] == WHY
    assert "'why'" in why["description"]
    assert row["properties"]["stars"]["x-classes"] == [0, 1]
    assert "x-classes" not in row["properties"]["watch"]
    of_columns = columns["properties"]["outputs"]["properties"]
    assert of_columns["why"]["items"] == why
    assert of_columns["why"]["maxItems"] == 4


@pytest.mark.parametrize(
    "asked", [{"instances": [{"user": 3}] * 2}, {"inputs": {"user": [3, 4]}}]
)
def test_answers_are_what_is_described(client: Client, asked: Any) -> None:
    schema = answer_schema(client)
    answered = client.predict(asked).json()
    jsonschema.validate(answered, schema)
    if "predictions" in answered:
        del answered["predictions"][0]["why"][0]
    else:
        del answered["outputs"]["why"][0][0]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(answered, schema)


def test_an_output_for_each_class(tmp_path: Path) -> None:
    """As two stages have them, beside signatures that do something else."""
    node = helper.make_node
    names = [f"why_{name}" for name in WHY]
    write(
        tmp_path,
        [
            *(node("Cast", ["user"], [name], to=FLOAT) for name in names),
            node("Identity", ["user"], ["item"]),
        ],
        {"user": (INT64, ["users", "items"])},
        {
            "item": (INT64, ["rows", "top"]),
            **{name: (FLOAT, [f"{name} rows", 2]) for name in names},
        },
        {},
    )
    write_classes(tmp_path, {"why": WHY})
    client = Client.of(tmp_path, name="m")
    content = client.get("/v1/models/m/metadata").json()
    assert content["metadata"]["classes"] == {
        "why": {"number": 3, "names": WHY, "outputs": names}
    }
    schema = answer_schema(client)
    row = schema["oneOf"][0]["properties"]["predictions"]["items"]
    assert row["properties"]["why_too big"]["description"] == (
        "Probability of the class 'too big' of 'why'"
    )
    asked = {"instances": [{"user": [2**53 + 1, 2**53]}]}
    answered = client.predict(asked).json()
    assert answered["predictions"][0]["item"] == [2**53 + 1, 2**53]
    jsonschema.validate(answered, schema)


def test_a_model_without_classes(saved_models: Path) -> None:
    client = Client.of(saved_models, name="m")
    content = client.get("/v1/models/m/metadata").json()
    assert [*content["metadata"]] == ["signature_def"]
    assert "x-classes" not in client.get("/openapi.json").text


def test_of_one_output_the_name_is_left_out() -> None:
    described = described_answer(
        Signature({}, {"watch": TensorSpec("float32", (None,))}), 7
    )
    rows, columns = described["oneOf"]
    assert rows["properties"]["predictions"]["items"]["type"] == "number"
    assert columns["properties"]["outputs"]["maxItems"] == 7


@pytest.mark.parametrize(
    ("spec", "valid", "invalid"),
    [
        (TensorSpec("string", (None,)), ["a", {"b64": "w8M="}], [1, {"b": ""}]),
        (TensorSpec("string", (None, 1)), [["a"], [{"b64": ""}]], [[], "a"]),
        (TensorSpec("int64", (None,)), [2**63 - 1], [2**63, 0.5, "1"]),
        (TensorSpec("bool", (None,)), [True], [1]),
        (TensorSpec("uint8", (None, None)), [[], [1, 2]], [1]),
        (TensorSpec("float32", ()), [1.5, [[1]], {}], []),
    ],
)
def test_outputs_of_other_types(
    spec: TensorSpec, valid: list[Any], invalid: list[Any]
) -> None:
    schema = described_answer(Signature({}, {"a": spec}), 9)
    jsonschema.validate({"predictions": valid}, schema)
    for value in invalid:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"outputs": [value]}, schema)


def test_bytes_are_described_as_bytes() -> None:
    outputs = {"a_bytes": TensorSpec("string", (None,))}
    schema = described_answer(Signature({}, outputs), 9)
    jsonschema.validate({"outputs": [{"b64": "YQ=="}]}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"outputs": ["a"]}, schema)


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{",
        '{"why": 3}',
        '{"why": []}',
        '{"why": ["a"]}',
        '{"why": ["a", "a"]}',
        '{"why": ["a", 1]}',
        '{"why": [1, 2]}',
        '{"why": [false, true]}',
    ],
)
def test_classes_that_are_broken(tmp_path: Path, content: str) -> None:
    write_onnx(tmp_path)
    write_classes(tmp_path, {"why": WHY})
    (tmp_path / "assets.extra" / "classes.json").write_text(content)
    with pytest.raises(FileError, match=r"classes.json.*: expected"):
        load(tmp_path)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["why", "watch", "é", "\ud800", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["why", "watch"]), inner)
    ),
)


@given(JSON)
def test_whatever_the_file_holds(content: Any) -> None:
    """It is an error of the file, or classes that fit the outputs."""
    specs = {
        "why": TensorSpec("float32", (None, 2)),
        "watch": TensorSpec("float32", (None,)),
    }
    with TemporaryDirectory() as name:
        file = Path(name, "assets.extra", "classes.json")
        file.parent.mkdir()
        file.write_text(json.dumps(content))
        problem, found = "", Signature({}, specs)
        try:
            found = with_classes({"s": found}, Path(name))["s"]
        except FileError as error:
            problem = str(error)
        assert not problem or f"{file}: expected " in problem
    for task, classes in found.classes.items():
        assert (task, len(classes.names)) == ("why", 2)


def test_classes_of_another_model(tmp_path: Path) -> None:
    write_onnx(tmp_path)
    write_classes(tmp_path, {"why": ["a", "b"]})
    with pytest.raises(FileError) as caught:
        load(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'assets.extra' / 'classes.json'}: expected the classes "
        "of the output 'why', 3. Received: 2"
    )


def test_no_file_without_classes(tmp_path: Path) -> None:
    write_classes(tmp_path, {})
    assert not (tmp_path / "assets.extra").exists()
    write_classes(tmp_path, {"why": ["é", "b"]})
    text = (tmp_path / "assets.extra" / "classes.json").read_text("utf-8")
    assert json.loads(text) == {"why": ["é", "b"]}
