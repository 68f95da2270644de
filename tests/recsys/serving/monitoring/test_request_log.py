import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from recsys.serving.monitoring import request_log
from recsys.serving.monitoring.request_columns import RequestColumns
from recsys.serving.monitoring.request_log import LoggedRequest
from recsys.serving.monitoring.request_log import RequestLog
from recsys.serving.tensor_spec import TensorSpec

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

MISSING = -(2**63)
INPUTS = {
    "user_id": TensorSpec("int64", (None,), np.array([MISSING])),
    "tags": TensorSpec("string", (None, None), np.array([[b""]], object)),
    "cover": TensorSpec("float32", (None, 2), np.zeros((1, 2), "f")),
    "age": TensorSpec("float32", (None,), np.array([np.nan], "f")),
    "budget": TensorSpec("float32", (None,), np.array([2.0], "f")),
}
FEATURES = {
    "user_id": "user id",
    "tags": "tags",
    "cover": "cover",
    "age": "age",
}
ARRAYS = {
    "user_id": np.array([2**60 + 1, MISSING]),
    "tags": np.array([["é".encode(), b"b"], [b"a", b""]], object),
    "cover": np.array([[0.0, 0.0], [0.5, 1.0]], "f"),
    "age": np.array([np.nan, 30.0], "f"),
    "budget": np.array([1.0, 1.5], "f"),
}
OUTPUTS = {"watch": np.array([0.25, 0.5], "f"), "why": np.eye(2, dtype="f")}


def logged(columns: RequestColumns) -> LoggedRequest:
    return LoggedRequest(columns, "trace-7", 3, ARRAYS, OUTPUTS)


@pytest.fixture
def columns() -> RequestColumns:
    return RequestColumns(INPUTS, FEATURES)


def test_columns_are_those_of_the_data(columns: RequestColumns) -> None:
    rows = columns.table(ARRAYS, OUTPUTS).to_pylist()
    assert rows == [
        {
            "user id": 2**60 + 1,
            "tags": ["é", "b"],
            "cover": [0.0, 0.0],
            "age": None,
            "served/budget": 1.0,
            "served/watch": 0.25,
            "served/why": [1.0, 0.0],
        },
        {
            "user id": None,
            "tags": ["a"],
            "cover": [0.5, 1.0],
            "age": 30.0,
            "served/budget": 1.5,
            "served/watch": 0.5,
            "served/why": [0.0, 1.0],
        },
    ]


def test_lists_of_lists_are_kept(columns: RequestColumns) -> None:
    weights = np.array([[[0.5, 0.5], [0.0, 1.0]]], np.float32)
    (row,) = columns.table({}, {"watch/experts": weights}).to_pylist()
    assert row == {"served/watch/experts": weights[0].tolist()}


def test_parts_appear_as_they_are_full(
    columns: RequestColumns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "_PART_ROWS", 4)
    log = RequestLog(tmp_path, 1.0, pytest.fail)
    for _ in range(5):
        log.add(logged(columns))
    log.close()
    parts = sorted(tmp_path.glob("*.parquet"))
    assert [len(pd.read_parquet(part)) for part in parts] == [4, 4, 2]
    assert [*tmp_path.iterdir()] == [*tmp_path.glob("*.parquet")]


def test_parts_appear_in_time(
    columns: RequestColumns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "_PART_SECONDS", 0.0)
    log = RequestLog(tmp_path, 1.0, pytest.fail)
    log.add(logged(columns))
    while not [*tmp_path.glob("*.parquet")]:
        pass
    log.close()
    assert len([*tmp_path.glob("*.parquet")]) == 1


def test_what_cannot_be_written_is_counted(
    columns: RequestColumns, tmp_path: Path
) -> None:
    dropped: list[None] = []
    folder = tmp_path / "log"
    log = RequestLog(folder, 1.0, lambda: dropped.append(None))
    folder.rmdir()
    folder.write_text("a file")
    log.add(logged(columns))
    log.close()
    assert len(dropped) == 1


def test_share_of_the_sample(tmp_path: Path) -> None:
    log = RequestLog(tmp_path, 0.25, pytest.fail)
    log._random = random.Random(0)
    drawn = sum(log.draws() for _ in range(4000))
    log.close()
    assert 900 < drawn < 1100  # 4 standard deviations.
