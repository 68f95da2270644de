import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.recsys.serving.client import PREDICT
from tests.recsys.serving.client import Client

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

ROW = {"user": 3, "film": "abc", "tags": [1, 2], "age": 1.5}
COLUMNS = {"user": [3], "film": ["abc"], "tags": [[1, 2]], "age": [1.5]}


def changed(**changes: Any) -> dict[str, Any]:
    """A request of one row, with some of it changed; `...` leaves it out."""
    row = {**ROW, **changes}
    given = {name: row[name] for name in row if row[name] is not ...}
    return {"instances": [given]}


def changed_columns(**changes: Any) -> dict[str, Any]:
    columns = {**COLUMNS, **changes}
    given = {name: columns[name] for name in columns if columns[name] != ...}
    return {"inputs": given}


def test_rows(client: Client) -> None:
    rows = [ROW, {**ROW, "user": 4, "film": "é", "tags": [0, 0]}]
    response = client.predict({"instances": rows})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "predictions": [
            {"rating": 4.5, "watch": 9.0},
            {"rating": 3.5, "watch": 8.0},  # Two bytes of UTF-8.
        ]
    }


def test_columns(client: Client) -> None:
    response = client.predict({"inputs": COLUMNS, "signature_name": ""})
    assert response.json() == {"outputs": {"rating": [4.5], "watch": [9.0]}}


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ({"instances": ["a", "é"]}, {"predictions": ["aa", "éé"]}),
        ({"instances": [{"film": "a"}]}, {"predictions": ["aa"]}),
        ({"inputs": ["a"]}, {"outputs": ["aa"]}),
        ({"inputs": {"film": ["a"]}}, {"outputs": ["aa"]}),
        ({"instances": [{"b64": "YQ=="}]}, {"predictions": ["aa"]}),
        # Half of a character.
        ({"inputs": [{"b64": "ww=="}]}, {"outputs": [{"b64": "w8M="}]}),
        ({"inputs": ["\0"]}, {"outputs": ["\0\0"]}),
    ],
)
def test_only_input_and_output_need_no_name(
    client: Client, asked: dict[str, Any], answered: dict[str, Any]
) -> None:
    response = client.predict({"signature_name": "twice", **asked})
    assert response.json() == answered


@pytest.mark.parametrize("left_out", [..., None])
def test_default_stands_for_what_is_left_out(
    client: Client, left_out: Any
) -> None:
    rows = changed(age=left_out)["instances"] + changed(age=2)["instances"]
    response = client.predict({"instances": rows})
    ratings = [row["rating"] for row in response.json()["predictions"]]
    assert ratings == [33.0, 5.0]


def test_default_stands_for_a_column_that_is_left_out(client: Client) -> None:
    assert client.predict(changed_columns(age=...)).json()["outputs"] == {
        "rating": [33.0],
        "watch": [9.0],
    }
    response = client.predict(
        {
            "inputs": {
                "user": [0, 0],
                "film": ["", ""],
                "tags": [[], []],
                "age": [None, 5],
            }
        }
    )
    assert response.json()["outputs"]["rating"] == [30.0, 5.0]


def test_one_value_of_a_column_is_for_all_rows(client: Client) -> None:
    """As one user beside all items."""
    response = client.predict(changed_columns(user=[0, 1, 2]))
    assert response.json()["outputs"] == {
        "rating": [4.5, 4.5, 4.5],
        "watch": [3.0, 5.0, 7.0],
    }


def test_numbers_at_their_bounds(client: Client) -> None:
    for user in (-(2**63), 2**63 - 1):
        response = client.predict(changed(user=user, tags=[]))
        (row,) = response.json()["predictions"]
        assert row["watch"] == pytest.approx(2.0 * user)


# What is sent, the status, and what the message has to say.
REFUSED = {
    "no JSON": (b"{", 400, "body, line 1: expected JSON. Received: its end"),
    "empty": (b"", 400, "body, line 1: expected JSON. Received: its end"),
    "not UTF-8": (b'"\xff"', 400, "bytes that are not UTF-8"),
    "half of a character": (b'["\\ud800"]', 400, "body: expected JSON."),
    "too deep": (b"[" * 100_000, 400, "nested too deeply"),
    "huge integer": (b"9" * 5_000, 400, "an integer of thousands of digits"),
    "twice": (b'{"inputs": 1, "inputs": 2}', 400, "'inputs' twice"),
    "list": ([], 400, "body: expected an object. Received: []"),
    "number": (7, 400, "body: expected an object. Received: 7"),
    "other key": ({"rows": []}, 400, "Received: 'rows'"),
    "nothing": ({}, 400, "either `instances` or `inputs`. Received: neither"),
    "both": ({"instances": [], "inputs": {}}, 400, "`inputs`. Received: both"),
    "no rows": ({"instances": []}, 400, "instances: expected at least one"),
    "null": ({"instances": None}, 400, "instances: expected a list"),
    "object": ({"instances": {}}, 400, "instances: expected a list"),
    "row of another type": (
        {"instances": [ROW, 7]},
        400,
        "instances[1]: expected an object with the inputs by name. Received: 7",
    ),
    "unknown feature": (
        changed(color="red"),
        400,
        "instances[0]: expected inputs of ['age', 'film', 'tags', 'user']. "
        "Received: 'color'",
    ),
    "missing feature": (
        changed(user=...),
        400,
        "instances[0]: expected the input 'user'",
    ),
    "null for what has no default": (
        changed(user=None),
        400,
        "instances[0].user: expected an integer of 64 bits. Received: None",
    ),
    "string for an integer": (
        changed(user="3"),
        400,
        "instances[0].user: expected an integer of 64 bits. Received: '3'",
    ),
    "fraction for an integer": (changed(user=3.0), 400, "Received: 3.0"),
    "truth for an integer": (changed(user=True), 400, "Received: True"),
    "beyond int64": (changed(user=2**63), 400, "Received: 9223372036854775808"),
    "below int64": (changed(user=-(2**63) - 1), 400, "instances[0].user"),
    "list for an integer": (changed(user=[3]), 400, "Received: [3]"),
    "object for an integer": (changed(user={}), 400, "Received: {}"),
    "integer for a string": (
        changed(film=3),
        400,
        "instances[0].film: expected a string. Received: 3",
    ),
    "base64 that is none": (changed(film={"b64": "?"}), 400, "[0].film"),
    "base64 of a number": (changed(film={"b64": 7}), 400, "[0].film"),
    "string for a number": (
        changed(age="old"),
        400,
        "instances[0].age: expected a finite number. Received: 'old'",
    ),
    "NaN": (json.dumps(changed(age=float("nan"))), 400, "Received: nan"),
    "infinity": (json.dumps(changed(age=float("inf"))), 400, "Received: inf"),
    "beyond float32": (changed(age=1e39), 400, "Received: 1e+39"),
    "beyond float64": (changed(age=10**400), 400, "[0].age: expected a finite"),
    "number for a list": (
        changed(tags=1),
        400,
        "instances[0].tags: expected a list. Received: 1",
    ),
    "list in a list": (
        changed(tags=[1, [2]]),
        400,
        "instances[0].tags[1]: expected an integer of 64 bits. Received: [2]",
    ),
    "string in a list": (changed(tags=[1, "2"]), 400, "instances[0].tags[1]"),
    "ragged": (
        {"instances": [ROW, {**ROW, "tags": [1]}]},
        400,
        "instances[1].tags: expected a list of 2, as the first one is. "
        "Received: [1]",
    ),
    "six rows": (
        {"instances": [ROW] * 6},
        413,
        "instances: expected at most 5 rows. Received: 6",
    ),
    "columns of a list": ({"inputs": []}, 400, "inputs: expected an object"),
    "no columns": ({"inputs": {}}, 400, "inputs: expected the input 'film'"),
    "unknown column": (
        changed_columns(color=["red"]),
        400,
        "inputs: expected inputs of",
    ),
    "missing column": (changed_columns(user=...), 400, "the input 'user'"),
    "one value": (changed_columns(user=3), 400, "inputs.user: expected a list"),
    "empty column": (changed_columns(user=[]), 400, "inputs.user: expected at"),
    "unequal columns": (
        changed_columns(user=[3, 4, 5], film=["", ""]),
        400,
        "inputs.film: expected 3 rows, as in the others, or one for all. "
        "Received: 2",
    ),
    "value in a column": (
        changed_columns(user=[3, ""]),
        400,
        "inputs.user[1]: expected an integer of 64 bits. Received: ''",
    ),
    "six rows in columns": (
        {"inputs": {name: COLUMNS[name] * 6 for name in COLUMNS}},
        413,
        "expected at most 5 rows. Received: 6",
    ),
    "other signature": (
        {**changed(), "signature_name": "x"},
        400,
        "signature_name: expected one of ['serving_default', 'twice']. "
        "Received: 'x'",
    ),
    "signature of a number": (
        {**changed(), "signature_name": 7},
        400,
        "signature_name: expected",
    ),
    "signature of a list": (
        {**changed(), "signature_name": []},
        400,
        "signature_name: expected",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_malformed_request_is_refused(client: Client, case: str) -> None:
    content, status, message = REFUSED[case]
    if not isinstance(content, bytes):
        content = (
            content if isinstance(content, str) else json.dumps(content)
        ).encode()
    response = client.ask("POST", PREDICT, content=content)
    assert response.status_code == status
    assert list(response.json()) == ["error"]
    error = response.json()["error"]
    assert message in error
    assert "\n" not in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/index.html", 404, "expected /v1/models/m, with :predict"),
        ("GET", "/v1", 404, "Received: '/v1'"),
        ("GET", "/v1/models/other", 404, "Received: '/v1/models/other'"),
        ("POST", "/v1/models/other:predict", 404, "expected /v1/models/m"),
        ("POST", "/v1/models/m:classify", 404, "expected /v1/models/m"),
        ("POST", "/v1/models/m:predict/", 404, "expected /v1/models/m"),
        ("GET", PREDICT, 405, "expected POST. Received: 'GET'"),
        ("PUT", PREDICT, 405, "expected POST. Received: 'PUT'"),
        ("POST", "/v1/models/m", 405, "Received: 'POST'"),
        (
            "POST",
            "/v1/models/m/versions/1:predict",
            404,
            "version: 2. Received",
        ),
        ("POST", "/v1/models/m/versions/x:predict", 404, "Received: 'x'"),
        ("GET", "/v1/models/m/versions/9", 404, "Received: '9'"),
        ("GET", "/v1/models/m/versions/9/metadata", 404, "Received: '9'"),
    ],
)
def test_wrong_address(
    client: Client, method: str, path: str, status: int, message: str
) -> None:
    response = client.ask(method, path, content=json.dumps(changed()))
    assert response.status_code == status
    assert message in response.json()["error"]
    assert ("allow" in response.headers) == (status == 405)


def test_version_by_its_number(client: Client) -> None:
    path = "/v1/models/m/versions/2"
    response = client.ask("POST", f"{path}:predict", json=changed())
    assert response.json()["predictions"][0]["watch"] == 9.0
    assert client.get(path).json() == client.get("/v1/models/m").json()


def test_status_and_metadata(client: Client) -> None:
    assert client.get("/v1/models/m").json() == {
        "model_version_status": [
            {
                "version": "2",
                "state": "AVAILABLE",
                "status": {"error_code": "OK", "error_message": ""},
            }
        ]
    }
    content = client.get("/v1/models/m/metadata").json()
    assert content["model_spec"] == {
        "name": "m",
        "signature_name": "",
        "version": "2",
    }
    signatures = content["metadata"]["signature_def"]["signature_def"]
    assert set(signatures) == {"serving_default", "twice"}
    assert signatures["serving_default"]["inputs"]["tags"] == {
        "dtype": "DT_INT64",
        "tensor_shape": {
            "dim": [{"size": "-1", "name": ""}, {"size": "-1", "name": ""}],
            "unknown_rank": False,
        },
        "name": "tags",
    }


def test_alive_before_it_is_ready(saved_models: Path) -> None:
    client = Client.of(saved_models, load_now=False)
    assert client.get("/healthz").status_code == 200
    for response in (
        client.get("/readyz"),
        client.get("/v1/models/m/metadata"),
        client.predict(changed()),
    ):
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
        assert response.json() == {"error": "no version is loaded yet"}
    assert client.get("/v1/models/m").json() == {"model_version_status": []}
    assert client.store is not None
    client.store.refresh()
    assert client.get("/readyz").status_code == 200


def test_requests_at_once_get_their_own_rows(client: Client) -> None:
    """One of them is refused, and fails no other."""
    users: list[Any] = [0, 1, "two", 3, 4, 5]
    responses = asyncio.run(
        client.ask_at_once(
            [("POST", PREDICT, {"json": changed(user=user)}) for user in users]
        )
    )
    for user, response in zip(users, responses, strict=True):
        if user == "two":
            assert response.status_code == 400
        else:
            (row,) = response.json()["predictions"]
            assert row["watch"] == 2 * user + 3


@pytest.mark.parametrize("chunked", [False, True])
def test_body_that_is_too_large(saved_models: Path, chunked: bool) -> None:
    client = Client.of(saved_models, max_body_mib=0.001)
    body = json.dumps(changed(film="x" * 2000)).encode()

    async def parts() -> Any:
        yield body[:1000]
        yield body[1000:]

    content = parts() if chunked else body
    response = client.ask("POST", PREDICT, content=content)
    assert response.status_code == 413
    assert "body: expected at most 1,048 bytes" in response.json()["error"]
    assert response.headers["connection"] == "close"


def test_compressed_body(client: Client) -> None:
    headers = {"content-encoding": "br"}
    response = client.predict(changed(), headers=headers)
    assert response.status_code == 400
    assert (
        "Content-Encoding: expected none, or gzip" in response.json()["error"]
    )


def test_more_requests_than_are_taken(saved_models: Path) -> None:
    client = Client.of(saved_models, max_concurrency=2)
    request = ("POST", PREDICT, {"json": changed()})
    responses = asyncio.run(client.ask_at_once([request] * 5))
    assert [response.status_code for response in responses] == [200] * 2 + [
        503
    ] * 3
    assert responses[-1].headers["retry-after"] == "1"
    assert client.predict(changed()).status_code == 200


def test_body_that_does_not_come(saved_models: Path) -> None:
    client = Client.of(saved_models, request_timeout=0.05)

    async def never() -> Any:
        yield b"{"
        await asyncio.sleep(5)

    response = client.ask("POST", PREDICT, content=never())
    assert response.status_code == 408
    assert "has not come within 0.05 seconds" in response.json()["error"]


def test_prediction_that_takes_too_long(saved_models: Path) -> None:
    client = Client.of(saved_models, request_timeout=0.1, batch_wait_ms=1e4)
    # After a batch of several, the next one waits.
    request = ("POST", PREDICT, {"json": changed()})
    asyncio.run(client.ask_at_once([request] * 2))
    response = client.predict(changed())
    assert response.status_code == 504
    assert "no prediction within 0.1 seconds" in response.json()["error"]


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Bearer"}, 401),
        ({"authorization": "Bearer sécret".encode("latin-1")}, 401),
        ({"authorization": "Basic secret"}, 401),
        ({"authorization": "Bearer secret"}, 200),
        ({"authorization": "bearer  secret"}, 200),
    ],
)
def test_token(saved_models: Path, header: dict[str, Any], status: int) -> None:
    client = Client.of(saved_models, token="secret")
    response = client.predict(changed(), headers=header)
    assert response.status_code == status
    assert client.get("/v1/models/m", headers=header).status_code == status
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
    if status == 401:
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.headers["connection"] == "close"  # The body is unread.
        assert "secret" not in response.text
        nowhere = client.get("/nowhere", headers=header)
        assert nowhere.status_code == 401


def test_failure_says_nothing_of_what_is_inside(
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("at 0x7f\nsecond line")

    assert client.store is not None
    assert client.store.served is not None
    batcher = client.store.served.model.batcher
    monkeypatch.setattr(batcher, "_run", fail)
    response = client.predict(changed())
    assert response.status_code == 500
    assert response.json() == {"error": "the prediction has failed"}
    (record,) = caplog.records
    assert record.message == (
        f"{PREDICT} failed: RuntimeError: at 0x7f second line"
    )
