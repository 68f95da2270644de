"""What a server tells of its requests, asked without a network."""

import asyncio
import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from recsys.serving.bodies import decompressed
from recsys.serving.monitoring.known_ids import write_known_ids
from recsys.serving.monitoring.server_metrics import ServerMetrics
from recsys.serving.serve_options import ServeOptions
from tests.recsys.serving.client import PREDICT
from tests.recsys.serving.client import Client

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

ROWS = [
    {"user": 3, "film": "abc", "tags": [1, 2], "age": 1.5},
    {"user": 2**60 + 1, "film": "é", "tags": [0, 0], "age": 2.0},
]


def samples(client: Client) -> dict[tuple[str, ...], float]:
    """The metrics by name and values of labels, in order of their names."""
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, *(v for _, v in sorted(sample.labels.items()))): (
            sample.value
        )
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


@pytest.fixture(scope="module")
def known(saved_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Version 1, with the ids that it knows."""
    folder = tmp_path_factory.mktemp("known")
    shutil.copytree(saved_models / "1", folder / "1")
    write_known_ids(folder / "1", {"user": [3, 2**60], "film": ["é"]})
    return folder


def test_requests_batches_ids_and_predictions(known: Path) -> None:
    client = Client.of(known, max_request_rows=5)
    assert client.predict({"instances": ROWS}).status_code == 200
    answer = client.predict({"instances": ROWS[:1]}).json()["predictions"]
    client.predict({"instances": ROWS * 3})
    client.predict({})
    client.get("/no/such/page")
    got = samples(client)
    assert got["recsys_requests_total", "predict", "200", "1"] == 2
    assert got["recsys_requests_total", "predict", "413", "1"] == 1
    assert got["recsys_requests_total", "predict", "400", "1"] == 1
    assert got["recsys_requests_total", "other", "404", ""] == 1
    assert got["recsys_rejected_requests_total", "too_large"] == 1
    assert got["recsys_rejected_requests_total", "invalid"] == 1
    assert got["recsys_request_seconds_count", "predict", "1"] == 4
    assert got["recsys_requests_under_way",] == 0
    assert got["recsys_batch_rows_count", "1"] == 2
    assert got["recsys_batch_rows_sum", "1"] == 3
    assert got["recsys_batch_rows_bucket", "1.0", "1"] == 1
    assert got["recsys_batch_seconds_count", "1"] == 2
    assert got["recsys_version", "AVAILABLE", "1"] == 1
    # `tags` may be anything: nothing says which are known.
    ids = {
        key[1:3]: n for key, n in got.items() if key[0] == "recsys_ids_total"
    }
    assert ids == {
        ("film", "known"): 1,
        ("film", "unknown"): 2,
        ("film", "missing"): 0,
        ("user", "known"): 2,
        ("user", "unknown"): 1,
        ("user", "missing"): 0,
    }
    assert got["recsys_prediction_count", "", "rating", "1"] == 3
    expected = 2 * answer[0]["rating"] + 4.0
    assert got["recsys_prediction_sum", "", "rating", "1"] == expected
    watch = got["recsys_prediction_sum", "", "watch", "1"]
    assert watch == pytest.approx(12 + 2**60)


def test_experts_budgets_and_classes() -> None:
    """What columns are counted, by hand."""
    from recsys.serving.monitoring.known_ids import KnownIds

    metrics = ServerMetrics()
    outputs = {
        "watch/experts": np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]),
        # Of two items in each row.
        "like/experts": np.array([[[0.5, 0.5], [1.0, 0.0]]] * 2),
        "why": np.array([[0.25, 0.75], [0.5, 0.5]]),
        "items": np.array([[1, 2], [3, 4]]),
        "title": np.array([b"a", b"b"], object),
        "wide": np.zeros((2, 65)),
    }
    inputs = {"budget": np.array([1.0, 2.5], np.float32)}
    metrics.computed("7", KnownIds({}, {}), inputs, outputs, 0.25)
    text = metrics.exposition().decode()
    assert 'recsys_experts_per_row_sum{task="watch",version="7"} 3.0' in text
    assert 'recsys_experts_per_row_sum{task="",version="7"} 3.5' in text
    assert 'recsys_experts_per_row_sum{task="like",version="7"} 6.0' in text
    assert 'recsys_experts_per_row_count{task="like",version="7"} 4.0' in text
    assert 'column="1",output="why",version="7"} 1.25' in text
    for name in ("items", "title", "wide"):
        assert name not in text
    assert 'recsys_batch_seconds_sum{version="7"} 0.25' in text


def test_metrics_need_the_token(saved_models: Path) -> None:
    client = Client.of(saved_models, token="secret")
    assert client.get("/metrics").status_code == 401
    headers = {"Authorization": "Bearer secret"}
    text = client.get("/metrics", headers=headers).text
    assert 'endpoint="metrics",status="401",version=""} 1.0' in text


def test_access_log_and_request_ids(saved_models: Path, tmp_path: Path) -> None:
    file = tmp_path / "access.log"
    client = Client.of(saved_models, access_log=str(file))
    given = {"X-Request-Id": "trace-7"}
    response = client.predict({"instances": ROWS}, headers=given)
    assert response.headers["x-request-id"] == "trace-7"
    response = client.get("/nowhere", headers={"X-Request-Id": "two words"})
    own = response.headers["x-request-id"]
    assert len(own) == 32
    first, second = map(json.loads, file.read_text().splitlines())
    assert first.pop("milliseconds") > 0
    assert first.pop("time").endswith("+00:00")
    assert first == {
        "request_id": "trace-7",
        "version": 2,
        "rows": 2,
        "client": "127.0.0.1",
        "method": "POST",
        "path": PREDICT,
        "status": 200,
        "bytes": len(client.predict({"instances": ROWS}).content),
    }
    assert (second["status"], second["request_id"]) == (404, own)
    file.rename(tmp_path / "rotated.log")
    client.get("/healthz")
    assert json.loads(file.read_text())["path"] == "/healthz"
    assert client.log is not None
    client.log.close()


def test_answers_are_compressed_where_that_pays(client: Client) -> None:
    plain = {"Accept-Encoding": "identity"}
    response = client.get("/openapi.json")
    assert response.headers["content-encoding"] == "gzip"
    uncompressed = client.get("/openapi.json", headers=plain)
    assert "content-encoding" not in uncompressed.headers
    assert response.json() == uncompressed.json()
    short = client.predict({"instances": ROWS})
    assert "content-encoding" not in short.headers
    assert short.headers["vary"] == "Accept-Encoding"


def test_requests_may_be_compressed(client: Client) -> None:
    def ask(content: bytes) -> Any:
        headers = {"Content-Encoding": "gzip"}
        return client.ask("POST", PREDICT, content=content, headers=headers)

    body = gzip.compress(json.dumps({"instances": ROWS}).encode())
    assert len(ask(body).json()["predictions"]) == 2
    for broken in (b"{}", body[:-9], body + b"more", b""):
        response = ask(broken)
        assert response.status_code == 400
        assert "expected gzip" in response.json()["error"]
    bomb = gzip.compress(bytes(2**23))
    response = ask(bomb)
    assert response.status_code == 413
    assert "more, compressed" in response.json()["error"]


def test_a_bomb_takes_no_more_memory_than_is_allowed() -> None:
    assert asyncio.run(decompressed(gzip.compress(bytes(10)), 9)) is None
    assert asyncio.run(decompressed(gzip.compress(bytes(9)), 9)) == bytes(9)


def test_pages_of_other_origins(saved_models: Path) -> None:
    shop, other = "https://shop.example", "https://other.example"
    client = Client.of(saved_models, cors_origins=(shop,), token="secret")
    headers = {"Origin": shop, "Access-Control-Request-Method": "POST"}
    asked = client.ask("OPTIONS", PREDICT, headers=headers)
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == shop
    asked = client.ask("OPTIONS", PREDICT, headers={**headers, "Origin": other})
    assert asked.status_code == 400
    response = client.get("/healthz", headers={"Origin": shop})
    assert response.headers["access-control-allow-origin"] == shop
    plain = Client.of(saved_models).get("/healthz", headers={"Origin": shop})
    assert "access-control-allow-origin" not in plain.headers


@pytest.mark.parametrize("origin", ["shop.example", "https://a/b", ""])
def test_wrong_origins_are_refused(origin: str) -> None:
    with pytest.raises(ValueError, match="cors_origins"):
        ServeOptions(cors_origins=(origin,))


def test_models_are_listed(client: Client) -> None:
    (model,) = client.get("/v1/models").json()["models"]
    assert model["name"] == "m"
    assert model["model_version_status"][0]["state"] == "AVAILABLE"
