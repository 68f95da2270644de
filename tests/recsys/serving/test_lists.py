"""Lists of any lengths and vectors of one size, in both formats."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.errors import FileError
from recsys.serving.json_values import as_array
from recsys.serving.runner import load
from recsys.serving.tensor_spec import ListLength
from recsys.serving.tensor_spec import TensorSpec
from tests.recsys.serving.client import Client
from tests.recsys.serving.list_models import SIZE
from tests.recsys.serving.list_models import WRITERS
from tests.recsys.serving.list_models import write_lengths
from tests.recsys.serving.list_models import write_onnx
from tests.recsys.serving.list_models import write_texts

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

BIG = 2**53 + 1


@pytest.fixture(scope="module", params=WRITERS)
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Client:
    folder = tmp_path_factory.mktemp("lists")
    WRITERS[request.param](folder / "1")
    return Client.of(folder, name="m", max_request_values=1000)


def watch(client: Client, **asked: Any) -> Any:
    response = client.predict(asked)
    assert response.status_code == 200, response.text
    content = response.json()
    return content.get("predictions", content.get("outputs"))


def test_lists_of_one_request_differ_in_length(client: Client) -> None:
    histories: list[Any] = [[1, 2, 4], [], [8], None]
    rows = [{"user": 100, "history": each} for each in histories]
    expected = [107.0, 100.0, 108.0, 100.0]
    assert watch(client, instances=rows) == expected
    columns = {"user": [100], "history": histories}
    assert watch(client, inputs=columns) == expected


def test_a_list_that_is_left_out_is_empty(client: Client) -> None:
    rows = [{"user": 1}, {"user": 2, "history": [4, 8]}, {"user": 3}]
    assert watch(client, instances=rows) == [1.0, 14.0, 3.0]
    assert watch(client, inputs={"user": [1, 2]}) == [1.0, 2.0]
    assert watch(client, inputs={"history": [[], [7]]}) == [0.0, 7.0]


def test_an_element_of_a_list_is_named(client: Client) -> None:
    rows = [{"history": []}, {"history": [1, 2]}, {"history": [3, "4", 5]}]
    response = client.predict({"instances": rows})
    assert response.status_code == 400
    assert response.json() == {
        "error": "instances[2].history[1]: expected an integer of 64 bits. "
        "Received: '4'"
    }
    response = client.predict({"inputs": {"history": [[], 7]}})
    assert response.json()["error"] == (
        "inputs.history[1]: expected a list. Received: 7"
    )


def test_a_vector_of_another_size_is_refused(client: Client) -> None:
    rows = [{"vector": [1, 2, 3]}, {"vector": None}, {"vector": [1, 2]}]
    response = client.predict({"instances": rows})
    assert response.status_code == 400
    assert response.json() == {
        "error": "instances[2].vector: expected a list of 3. "
        "Received: [1, 2], a list of 2"
    }
    response = client.predict({"inputs": {"vector": [[1, 2, 3, 4]]}})
    assert response.status_code == 400
    assert response.json()["error"] == (
        "inputs.vector[0]: expected a list of 3. "
        "Received: [1, 2, 3, 4], a list of 4"
    )


def test_the_size_is_described(client: Client) -> None:
    content = client.get("/v1/models/m/metadata").json()
    signatures = content["metadata"]["signature_def"]["signature_def"]
    inputs = signatures["serving_default"]["inputs"]
    sizes = {
        name: [dim["size"] for dim in tensor["tensor_shape"]["dim"]]
        for name, tensor in inputs.items()
    }
    assert sizes == {
        "user": ["-1"],
        "history": ["-1", "-1"],
        "vector": ["-1", str(SIZE)],
    }
    path = "/v1/models/m:predict"
    operation = client.get("/openapi.json").json()["paths"][path]["post"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    rows = body["oneOf"][0]["properties"]["instances"]["items"]["properties"]
    vector, history = (rows[key]["anyOf"][0] for key in ("vector", "history"))
    assert (vector["minItems"], vector["maxItems"]) == (SIZE, SIZE)
    assert "maxItems" not in history


@pytest.mark.parametrize(
    ("asked", "received"),
    [
        (
            {"inputs": {"user": [1] * 20, "history": [[3] * 100]}},
            "2,000 with 20 rows of 100",
        ),
        (
            {"instances": [{"history": [3] * 60}, *[{"user": 1}] * 19]},
            "1,200 with 20 rows of 60",
        ),
        (
            {"inputs": {"vector": [[0] * SIZE], "user": [1] * 400}},
            "1,600 with 400 rows of 3",
        ),
    ],
)
def test_values_of_a_request_are_bounded(
    client: Client, asked: Any, received: str
) -> None:
    """Whatever few of them it takes to say so."""
    response = client.predict(asked)
    assert response.status_code == 413
    error = response.json()["error"]
    assert "expected at most 1,000 values in a request: its rows times" in error
    assert error.endswith(f"Received: {received}")


def test_what_is_left_out_takes_no_room(client: Client) -> None:
    assert watch(client, inputs={"user": [1] * 1000}) == [1.0] * 1000
    assert client.predict({"inputs": {"user": [1] * 1001}}).status_code == 413


def test_a_body_of_more_than_any_request_may_have(tmp_path: Path) -> None:
    write_onnx(tmp_path)
    client = Client.of(tmp_path, max_request_values=10, max_request_rows=10)
    response = client.predict({"inputs": {"history": [[1] * 200]}})
    assert response.status_code == 413
    assert "body: expected at most 180 commas and brackets" in response.text


@pytest.mark.parametrize(
    ("keeps_last", "expected"), [(True, 12.0), (False, 3.0)]
)
def test_long_lists_are_cut_before_they_are_repeated(
    tmp_path: Path, keeps_last: bool, expected: float
) -> None:
    write_onnx(tmp_path)
    write_lengths(tmp_path, history=(2, keeps_last))
    client = Client.of(tmp_path, max_request_values=100)
    # -1 is what the model passes over.
    columns = {"user": [0] * 10, "history": [[1, -1, 2] + [3] * 50 + [4, 8]]}
    assert watch(client, inputs=columns) == [expected] * 10
    rows = [{"history": [5, 6, 7]}, {"history": [1]}, {"user": 2}]
    first = 13.0 if keeps_last else 11.0
    assert watch(client, instances=rows) == [first, 1.0, 2.0]
    wrong = {"inputs": {"history": [[1, "x", 2] + [3] * 50]}}
    assert "inputs.history[0][1]: expected" in client.predict(wrong).text


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"history": 3}', '{"history": {"most": 0}}']
)
def test_lengths_that_are_broken(tmp_path: Path, content: str) -> None:
    write_onnx(tmp_path)
    write_lengths(tmp_path)
    (tmp_path / "assets.extra" / "lists.json").write_text(content)
    with pytest.raises(FileError, match=r"lists.json.*: expected"):
        load(tmp_path)


def test_texts_are_filled_up_with_the_default(tmp_path: Path) -> None:
    write_texts(tmp_path)
    client = Client.of(tmp_path)
    rows = [["a", "é", "7"], [], ["007"]]
    expected = [["a", "é", "7"], ["", "", ""], ["007", "", ""]]
    assert watch(client, instances=rows) == expected


IDS = st.sampled_from([-(2**63), -1, 0, BIG - 1, BIG, 2**63 - 1])
TEXTS = st.sampled_from([b"", b"7", b"007", "é".encode(), b"9007199254740993"])


@given(
    st.one_of(
        st.lists(st.lists(values, max_size=6), min_size=1, max_size=5)
        for values in (IDS, TEXTS)
    ),
    st.none() | st.builds(ListLength, st.integers(1, 4), st.booleans()),
)
def test_lists_are_the_same_row_by_row(
    rows: list[list[Any]], length: ListLength | None
) -> None:
    is_text = any(isinstance(value, bytes) for row in rows for value in row)
    missing: Any = b"" if is_text else -(2**63)
    default = np.array([[missing]], object if is_text else np.int64)
    dtype = "string" if is_text else "int64"
    spec = TensorSpec(dtype, (None, None), default, length)
    given_rows = [
        [value.decode() if is_text else value for value in row] for row in rows
    ]
    array = as_array(given_rows, spec, str)
    assert array.shape == (len(rows), max(map(len, kept(rows, spec))))
    for row, wanted in zip(array.tolist(), kept(rows, spec), strict=True):
        assert row[: len(wanted)] == wanted
        assert set(row[len(wanted) :]) <= {missing}


def kept(rows: list[list[Any]], spec: TensorSpec) -> list[list[Any]]:
    """What is left of each row: all of it where no row is too long."""
    length = spec.length
    if length is None or max(map(len, rows)) <= length.most:
        return rows
    known = [[value for value in row if value != spec.filler] for row in rows]
    return [
        row[max(0, len(row) - length.most) :]
        if length.keeps_last
        else row[: length.most]
        for row in known
    ]


def test_memory_is_taken_once_there_is_room() -> None:
    def refuse(width: int) -> None:
        raise MemoryError(f"{width}")

    spec = TensorSpec("int64", (None, None), np.array([[-1]]))
    with pytest.raises(MemoryError, match="2"):
        as_array([[1, 2], []], spec, str, refuse)
