"""Every kind of feature and of task, from the log to the export."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import recsys
from recsys.data import DataError
from recsys.data import load
from recsys.data import prepare
from recsys.data import read_table
from recsys.data import write_table
from recsys.data.columns import parse
from recsys.exporting import export_format
from recsys.exporting.fresh_process import outputs_by_batch_size
from recsys.features import FEATURES
from recsys.features import Image
from recsys.tasks import TASKS

SCHEMA: dict[str, Any] = {
    "name": "shop",
    "features": {
        "user": "id",
        "item": {"type": "id", "min_count": 2, "dim": 6},
        "device": {"type": "hash", "buckets": 20},
        "place": {"type": "hash", "buckets": 5, "functions": 2},
        "genres": {"type": "ids", "pooling": "max"},
        "tags": {"type": "ids", "weighted": True, "pooling": "sum"},
        "bought": {"type": "ids", "of": "item", "weighted": True},
        "history": {
            "type": "sequence",
            "of": "item",
            "length": 5,
            "pooling": "attention",
            "query": "item",
        },
        "seen": {"type": "sequence", "of": "item"},
        "age": {"type": "number", "indicator": True},
        "price": {"type": "number", "transform": "log1p"},
        "hour": {"type": "bucket", "quantiles": 6},
        "cover": {"type": "vector", "size": 3},
    },
    "tasks": {
        "click": "binary",
        "buy": {"type": "binary", "pos_weight": 3.0, "after": "click"},
        "share": {"type": "binary", "focal": 2.0},
        "stars": "regression",
        "reason": "multiclass",
    },
    "group": "user",
    "weight": "importance",
    "time": "day",
}


def log(count: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)

    def lists(values: int, longest: int) -> list[list[int]]:
        sizes = rng.integers(0, longest, count)
        return [rng.integers(0, values, size).tolist() for size in sizes]

    def weighted(values: int, longest: int) -> list[list[str]]:
        return [
            [f"{one}:{rng.random():.2f}" for one in row]
            for row in lists(values, longest)
        ]

    clicks = rng.integers(0, 2, count)
    return pd.DataFrame(
        {
            "user": rng.integers(0, 50, count),
            "item": rng.integers(0, 30, count),
            "device": [f"d{device}" for device in rng.integers(0, 99, count)],
            "place": [2**53 + row % 40 for row in range(count)],
            "genres": [[f"g{one}" for one in row] for row in lists(6, 4)],
            "tags": weighted(6, 4),
            "bought": weighted(30, 4),
            "history": lists(30, 8),
            "seen": lists(30, 3),
            "age": np.where(rng.random(count) < 0.1, np.nan, clicks + 30),
            "price": rng.exponential(20, count),
            "hour": rng.uniform(0, 24, count),
            "cover": [
                rng.normal(size=3).round(3).tolist() if row % 9 else None
                for row in range(count)
            ],
            "click": clicks,
            "stars": np.where(clicks, rng.normal(4, 1, count), np.nan),
            "buy": np.where(clicks, rng.integers(0, 2, count), np.nan),
            "share": rng.integers(0, 2, count),
            "reason": rng.integers(0, 3, count),
            "importance": rng.uniform(0.5, 2, count),
            "day": pd.date_range("2026-01-01", periods=count),
        }
    )


def strange_rows() -> pd.DataFrame:
    """Rows of unknown and missing values and of empty lists, and usual ones."""
    rows = log(8).astype(object)
    strange: dict[str, list[Any]] = {
        "user": [None, 10**15],
        "item": [999, None],
        "device": [None, ""],
        "place": [None, 2**63 - 1],
        "genres": [[], ["?", None]],
        "tags": [["999:0"], None],
        "bought": [["shoe:1", None, "999:1"], []],
        "history": [[None, 999], []],
        "seen": [None, list(range(40))],
        "age": [None, 1e30],
        "price": [None, 0.0],
        "hour": [None, -1e6],
        "cover": [[], None],
    }
    for column, values in strange.items():
        for row, value in enumerate(values):
            rows.at[row, column] = value
    return rows[list(strange)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: Any) -> Path:
    """A data folder that was prepared from a Parquet file."""
    raw_dir = tmp_path_factory.mktemp("raw")
    log(240).to_parquet(raw_dir / "log.parquet")
    (raw_dir / "columns.json").write_text(json.dumps(SCHEMA))
    options = {"train": "log.parquet", "schema": "columns.json"}
    prepare("table", raw_dir, raw_dir / "out", progress=False, **options)
    folder: Path = raw_dir / "out"
    return folder


@pytest.fixture(scope="module")
def run(
    data: Path,
    train_quickly: Callable[[Mapping[str, Any]], object],
    tmp_path_factory: Any,
) -> Path:
    folder: Path = tmp_path_factory.mktemp("runs") / "run"
    train_quickly(
        {
            "data": str(data),
            "out": str(folder),
            "gate": "top-k",
            "num_experts": 3,
            "embedding_dim": 4,
            "expert_units": [8],
            "head_units": [4],
            "epochs": 1,
            "batch_size": 32,
        }
    )
    return folder


@pytest.mark.once("torch")
def test_the_data_have_every_kind_of_a_table(data: Path) -> None:
    features = load(data).schema.features
    kinds = {type(kind) for kind in features.values()}
    assert kinds == set(FEATURES.values()) - {Image}
    assert json.loads((data / "dataset.json").read_text()) == SCHEMA


@pytest.mark.once("torch")
def test_the_data_have_every_kind_of_task(data: Path) -> None:
    tasks = load(data).schema.tasks.values()
    assert {type(kind) for kind in tasks} == set(TASKS.values())


@pytest.mark.once("torch")
def test_text_files_have_the_same_features(data: Path, tmp_path: Path) -> None:
    """Lists of integers and of texts, empty ones too, survive a CSV file."""
    (tmp_path / "dataset.json").write_text(json.dumps(SCHEMA))
    expected = load(data)
    for name in ("train", "validation", "test"):
        write_table(expected.split(name), tmp_path / f"{name}.csv")
    received = load(tmp_path)
    train = expected.split("train")
    fitted: dict[str, Any] = {}
    for column, kind in expected.schema.features.items():
        fitted[column] = kind.fit([train[column]], fitted)
        for name in ("train", "validation", "test"):
            np.testing.assert_allclose(
                fitted[column].encode(received.split(name)[column]),
                fitted[column].encode(expected.split(name)[column]),
                rtol=1e-6,
            )


@pytest.mark.traced_once("jax")
@pytest.mark.slow
def test_a_loaded_run_predicts_what_it_was_tested_on(
    run: Path, data: Path
) -> None:
    metrics = json.loads((run / "metrics.json").read_text())["test"]
    again = recsys.evaluate(run, data)
    assert again["loss"] == pytest.approx(metrics["loss"], rel=1e-5)


@pytest.mark.slow
@pytest.mark.once("torch")
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_predictions_of_a_file_and_of_a_table(
    run: Path, tmp_path: Path, suffix: str
) -> None:
    rows = log(20)
    write_table(rows, tmp_path / f"in{suffix}")
    recsys.predict(run, tmp_path / f"in{suffix}", tmp_path / f"out{suffix}")
    written = read_table(tmp_path / f"out{suffix}")
    expected = recsys.load_model(run).predict(rows)
    written = written[list(expected)].astype("float64")
    assert_frame_equal(written, expected, rtol=1e-5, check_dtype=False)


@pytest.mark.traced_once("jax")
@pytest.mark.slow
def test_empty_lists_unknown_and_missing_values_have_predictions(
    run: Path,
) -> None:
    model = recsys.load_model(run)
    rows = strange_rows()
    predicted = model.predict(rows)
    assert np.isfinite(predicted.to_numpy()).all()
    assert [*predicted] == [
        *("click", "buy", "share", "stars"),
        *("reason_0", "reason_1", "reason_2"),
    ]
    for row in range(len(rows)):
        alone = model.predict(rows[row : row + 1])
        assert_frame_equal(alone, predicted[row : row + 1], rtol=1e-4)
    assert model.predict(rows[:0]).shape == (0, 7)


# Around once, each backend predicts what another one does. What TensorFlow has
# written another one reads in tests/keras_moe/test_saving.py.
NEXT = {"tensorflow": "jax", "jax": "torch", "torch": "tensorflow"}


@pytest.mark.slow
@pytest.mark.usefixtures("warm_reader")
def test_a_run_predicts_the_same_on_another_backend(
    run: Path, tmp_path: Path
) -> None:
    rows = strange_rows()
    for name, some in (("all", rows), ("one", rows[:1]), ("none", rows[:0])):
        some.to_pickle(tmp_path / f"{name}.pickle")
    code = """
import sys
from pathlib import Path
import pandas as pd
import recsys
model = recsys.load_model(sys.argv[1])
for file in Path(sys.argv[2]).glob("*.pickle"):
    predicted = model.predict(pd.read_pickle(file))
    predicted.to_parquet(file.with_suffix(".parquet"))
"""
    subprocess.run(
        [sys.executable, "-c", code, str(run), str(tmp_path)],
        env={**os.environ, "KERAS_BACKEND": NEXT[keras.backend.backend()]},
        check=True,
    )
    expected = recsys.load_model(run).predict(rows)
    for name, count in (("all", 8), ("one", 1), ("none", 0)):
        received = pd.read_parquet(tmp_path / f"{name}.parquet")
        assert_frame_equal(
            received, expected[:count], rtol=1e-4, atol=1e-6, check_dtype=False
        )


@pytest.mark.slow
@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="exports under TensorFlow, from any backend",
)
def test_the_export_is_verified_and_takes_strange_rows(
    run: Path, tmp_path: Path
) -> None:
    model = recsys.load_model(run)
    inputs = recsys.export(run, tmp_path / "export")
    assert list(inputs) == list(model.features)
    lists = tmp_path / "export" / "1" / "assets.extra" / "lists.json"
    assert json.loads(lists.read_text()) == {
        "history": {"most": 5, "keeps_last": True},
        "seen": {"most": 50, "keeps_last": True},
    }
    table = strange_rows()
    expected = model.predict(table)
    # What is missing is unknown, and a tensor of integers can say that alone;
    # in a list, it is left out.
    table[["user", "item"]] = table[["user", "item"]].fillna(-5)
    table.at[0, "history"] = [999]
    rows = parse(table, model.features, "rows")
    raw = {
        inputs[name]: fitted.raw(rows[name])
        for name, fitted in model.fitted.items()
    }
    served = export_format("tf_saved_model").load(tmp_path / "export" / "1")
    outputs = outputs_by_batch_size(served, raw, (0, 1, 8))
    for size, count in ((0, 0), (1, 8), (8, 8)):
        for task, kind in model.tasks.items():
            columns = kind.columns(task, model.num_classes.get(task))
            wanted = expected[columns].to_numpy()[:count]
            received = outputs[f"{task}/{size}"].reshape(-1, len(columns))
            np.testing.assert_allclose(received, wanted, 1e-4, 1e-6)


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("feature", "declaration", "message"),
    [
        (
            "seen",
            {"type": "sequence", "of": "itm"},
            "'features', column 'seen': expected an `of` among the features "
            "with ids of their own, ['user', 'item', 'genres', 'tags']. "
            "Received: 'itm'",
        ),
        (
            "seen",
            {"type": "sequence", "of": "item", "dim": 5},
            "'features', column 'seen': expected dim in the declaration "
            "of 'item', which has the table. Received: dim=5 beside of='item'",
        ),
        (
            "history",
            {"type": "sequence", "of": "item", "pooling": "attention"},
            "'features', column 'history': expected query only with "
            "pooling 'attention', and the same feature as in of. Received: "
            "pooling='attention', query=None, of='item'",
        ),
        (
            "history",
            {
                "type": "sequence",
                "of": "genres",
                "pooling": "attention",
                "query": "genres",
            },
            "'features', column 'history': expected a `query` with one id per "
            "row. Received: 'genres' with {'pooling': 'max', 'type': 'ids'}",
        ),
        (
            "tags",
            {"type": "ids", "weighted": True, "pooling": "max"},
            "'features', column 'tags': expected pooling 'mean' or 'sum' for "
            "weighted ids. Received: pooling='max'",
        ),
        (
            "hour",
            {"type": "bucket", "borders": [1.0, 1.0]},
            "'features', column 'hour': expected borders in ascending order. "
            "Received: [1.0, 1.0]",
        ),
        (
            "cover",
            {"type": "vector"},
            "'features', column 'cover': expected a value at size. "
            "Received: none",
        ),
    ],
)
def test_a_wrong_declaration(
    feature: str, declaration: dict[str, Any], message: str
) -> None:
    features = {**SCHEMA["features"], feature: declaration}
    with pytest.raises(DataError) as caught:
        recsys.Schema("shop", features, SCHEMA["tasks"])
    assert str(caught.value) == message


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("cover", [1.0], "expected 3 numbers. Received: [1.0]"),
        ("cover", "1|x|2", "expected 3 finite numbers. Received: 'x'"),
        ("genres", 7, "expected a list, or values between `|`. Received: 7"),
        ("history", [1, 2.5], "expected an integer or a string. Received: 2.5"),
        (
            "tags",
            "1:2|3",
            "expected `id:weight`, such as 'drama:0.7'. Received: '3'",
        ),
        (
            "tags",
            [":1"],
            "expected `id:weight`, such as 'drama:0.7'. Received: ':1'",
        ),
        (
            "tags",
            "1:nan",
            "expected `id:weight`, such as 'drama:0.7'. Received: '1:nan'",
        ),
        ("tags", [7], "expected `id:weight`, such as 'drama:0.7'. Received: 7"),
        ("tags", "1:1e39", "expected a finite weight. Received: '1:1e39'"),
        (
            "bought",
            "1:-0.5",
            "expected a weight of at least 0, as the "
            "pooling is a mean. Received: '1:-0.5'",
        ),
        ("price", -1.0, "expected a number of at least 0. Received: -1.0"),
    ],
)
def test_a_wrong_value_is_told_with_its_row(
    run: Path, column: str, value: Any, message: str
) -> None:
    rows = log(4).astype(object)
    rows.at[2, column] = value
    with pytest.raises(DataError) as caught:
        recsys.load_model(run).predict(rows)
    assert str(caught.value) == (
        f"`x`, column {column!r}, data row 3 (counted from 1): {message}"
    )
