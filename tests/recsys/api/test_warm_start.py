"""Runs that go on from others, on new data."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest

import recsys
from recsys import DataError
from recsys import Dataset
from recsys import RunError
from recsys import Schema
from recsys import TrainConfig
from recsys.cli import run as command_line
from recsys.data import ImageDataset
from recsys.data import Images
from recsys.runs.run import Run
from tests.recsys.api.histories import read_history
from tests.recsys.api.interruptions import copied
from tests.recsys.conftest import NewRun

Settings = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.slow

SCHEMA = Schema(
    "shop",
    {
        "user": "id",
        "item": {"type": "id", "min_count": 2},
        "history": {
            "type": "sequence",
            "of": "item",
            "length": 4,
            "pooling": "attention",
            "query": "item",
        },
        "tags": "ids",
        "device": {"type": "hash", "buckets": 3},
        "age": "number",
        "hour": {"type": "bucket", "quantiles": 3},
        "cover": {"type": "vector", "size": 2},
    },
    {"click": "binary", "reason": "multiclass"},
)


def rows_of(count: int, seed: int, first: int, classes: int = 3) -> Any:
    """Ids from `first` on; items of odd number are clicked."""
    rng = np.random.default_rng(seed)
    item = rng.integers(first, first + 10, count)
    lengths = rng.integers(0, 6, count)
    user = rng.integers(first, first + 8, count)
    return pd.DataFrame(
        {
            "user": [f"u{number}" for number in user],
            "item": item,
            "history": [item[:length] for length in lengths],
            "tags": [[number] * (number % 3 + 1) for number in item],
            "device": rng.integers(0, 20, count),
            "age": rng.normal(first, 1, count),
            "hour": rng.uniform(first, 24, count),
            "cover": list(rng.uniform(size=(count, 2)).astype("float32")),
            "click": (item % 2).astype(float),
            "reason": (item % classes).astype(float),
        }
    )


def write_day(folder: Path, first: int, **changes: Any) -> Path:
    splits = {
        name: rows_of(count, seed, first, **changes)
        for seed, (name, count) in enumerate(
            {"train": 320, "validation": 40, "test": 40}.items()
        )
    }
    splits = {
        name: pd.DataFrame(
            {
                column: kind.check(rows[column], name)
                for column, kind in SCHEMA.columns.items()
            }
        )
        for name, rows in splits.items()
    }
    Dataset(SCHEMA, splits).write(folder)
    return folder


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two days of a shop: the second has half of the first one's ids."""
    folder = tmp_path_factory.mktemp("days")
    return [write_day(folder / "1", 0), write_day(folder / "2", 5)]


@pytest.fixture(scope="module")
def day_1(days: list[Path], new_run: NewRun) -> Path:
    """The run of the first day; not to be changed."""
    fields = {"learning_rate": 0.03, "expert_dropout": 0.0, "patience": 9}
    return new_run(data=str(days[0]), epochs=4, **fields)


def fields_of(
    data: Path, out: Path, source: Path, **changes: Any
) -> dict[str, Any]:
    return {
        "data": str(data),
        "out": str(out),
        "warm_start": str(source),
        **changes,
    }


@pytest.fixture(scope="module")
def both_days(
    days: list[Path], day_1: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The run that goes on with the second day; not to be changed.

    Beside it are "0" and "1", what there was of it in either epoch.
    """
    out = tmp_path_factory.mktemp("both_days") / "run"
    first = shutil.copytree(day_1, out.with_name("first"))
    copies = {(epoch, 1): out.with_name(f"{epoch}") for epoch in (0, 1)}
    with copied(out, copies):
        recsys.train(fields_of(days[1], out, first, epochs=2))
    shutil.rmtree(first)
    return out


def tables_of(run: Path) -> dict[str, Any]:
    ranker = recsys.load_ranker(run)
    return {
        name: layer.get_weights()[0]
        for name, layer in ranker.embeddings.items()
    }


@pytest.mark.once("torch")
def test_a_model_of_two_days_predicts_for_the_ids_of_both(
    days: list[Path], day_1: Path, both_days: Path
) -> None:
    before = recsys.load_ranker(day_1)
    after = recsys.load_ranker(both_days)
    for name, vocabulary in before.vocabularies.items():
        grown = after.vocabularies[name]
        assert 0 < vocabulary.size < grown.size
        known = grown.values[: vocabulary.size]
        assert list(known) == list(vocabulary.values)
    for day in days:
        table = recsys.load(day).split("test")
        encoded = after.encode(table)
        assert (encoded["user"] > 0).all()
        assert (encoded["item"] > 0).all()
        metrics = recsys.evaluate(both_days, day)
        assert metrics["tasks"]["click"]["auc"] > 0.9
    # Ids that are new on the second day are told apart.
    new = pd.concat([table.iloc[:1]] * 2, ignore_index=True)
    new["item"] = [11, 12]
    clicks = after.predict(new)["click"]
    assert clicks[0] != clicks[1]
    assert before.predict(new)["click"].nunique() == 1


@pytest.mark.once("torch")
@pytest.mark.parametrize("name", ["adam", "lazy-adam", "rowwise-adagrad"])
def test_it_begins_where_the_other_run_has_ended(
    name: str,
    days: list[Path],
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows bit for bit; moments too, those of new rows as at any start."""
    first = tmp_path / "first"
    fields = settings(first, data=str(days[0]), table_optimizer=name, epochs=1)
    recsys.train(fields)
    started: list[keras.Model] = []
    state: list[Any] = []

    def stop(model: Any, *_: Any, **__: Any) -> None:
        started.append(model)
        state.extend(one.numpy() for one in model.optimizer.variables)
        raise KeyboardInterrupt

    fields = fields_of(days[1], tmp_path / "run", first, learning_rate=0.5)
    with monkeypatch.context() as patch:
        patch.setattr(keras.Model, "fit", stop)
        with pytest.raises(KeyboardInterrupt):
            recsys.train(fields)
    before = tables_of(first)
    after = {
        table: layer.get_weights()[0]
        for table, layer in started[0].embeddings.items()
    }
    assert after.keys() == before.keys()
    for table, rows in before.items():
        held = len(rows)
        np.testing.assert_array_equal(after[table][:held], rows)
        assert (after[table][held:] == rows[0]).all()
        assert len(after[table]) > held or table in ("age", "device", "hour")
    with np.load(first / "optimizer.npz") as file:
        saved = {key: file[key] for key in file.files}
    slots = [array for array in state if len(array.shape) > 0]
    kept = [array for key, array in saved.items() if array.ndim]
    assert len(slots) == len(kept)
    shapes = sorted(array.shape[1:] for array in slots)
    assert shapes == sorted(array.shape[1:] for array in kept)
    grown = 0
    for wanted in kept:
        (match, *_) = [
            array
            for array in slots
            if array.shape[1:] == wanted.shape[1:]
            and np.array_equal(array[: len(wanted)], wanted)
        ]
        grown += len(match) > len(wanted)
        assert not match[len(wanted) :].any()
    # Tables of users, items and tags.
    assert grown == (6 if name == "adam" else 3)
    assert float(started[0].optimizer.learning_rate) == 0.5
    assert int(started[0].optimizer.iterations.numpy()) == 10


@pytest.mark.once("torch")
def test_resumed_run_ends_as_an_uninterrupted_one(
    both_days: Path,
) -> None:
    """In its first epoch and later; the other run is gone by then."""
    expected = Run(both_days).read_metrics()
    for epoch in (0, 1):
        run = Run(both_days.with_name(f"{epoch}"))
        keras.utils.set_random_seed(99)
        metrics = recsys.train(run.read_config(), resume=True)
        pd.testing.assert_frame_equal(
            read_history(run), read_history(both_days), rtol=1e-6
        )
        assert metrics["test"]["loss"] == pytest.approx(
            expected["test"]["loss"], rel=1e-6
        )
        assert not run.checkpoint.exists()


@pytest.mark.once("torch")
def test_its_configuration_says_where_it_came_from(
    days: list[Path], day_1: Path, tmp_path: Path
) -> None:
    """By which it can be repeated, and gone on from in turn."""
    out = tmp_path / "run"
    # It has the size of the batches from the first run: 10 steps an epoch.
    metrics = recsys.train(fields_of(days[1], out, day_1, seed=5, epochs=1))
    config = Run(out).read_config()
    assert config.warm_start == str(day_1)
    started = Run(day_1).read_config()
    assert (config.gate, config.num_experts) == ("top-k", started.num_experts)
    assert (config.seed, config.epochs) == (5, 1)
    again = recsys.train(
        {**json.loads(Run(out).config.read_text()), "out": tmp_path / "again"}
    )
    assert again["test"]["loss"] == pytest.approx(
        metrics["test"]["loss"], rel=1e-6
    )
    recsys.train(fields_of(days[0], tmp_path / "third", out))
    assert Run(tmp_path / "third").read_config().warm_start == str(out)
    with np.load(tmp_path / "third" / "optimizer.npz") as file:
        steps = int(file["iteration"])
    with np.load(day_1 / "optimizer.npz") as file:
        assert steps == int(file["iteration"]) + 10 * (1 + 1)


@pytest.mark.once("torch")
def test_streamed_rows_grow_a_model_as_held_ones_do(
    days: list[Path], day_1: Path, tmp_path: Path
) -> None:
    # One batch: rows come in another order.
    fields = {"epochs": 1, "batch_size": 320, "unknown_rate": 0.0}
    losses = []
    for streaming in (False, True):
        out = tmp_path / f"streaming-{streaming}"
        options = {**fields, "streaming": streaming}
        metrics = recsys.train(fields_of(days[1], out, day_1, **options))
        losses.append(metrics["test"]["loss"])
        sizes = {
            name: vocabulary.size
            for name, vocabulary in recsys.load_ranker(out).vocabularies.items()
        }
        assert sizes == {"user": 13, "item": 15, "tags": 15}
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.once("torch")
def test_a_search_that_is_over_stays_over(
    days: list[Path], settings: Settings, tmp_path: Path
) -> None:
    fields = {"gate": "top-k+", "search_epochs": 1, "data": str(days[0])}
    recsys.train(settings(tmp_path / "1", **fields, epochs=2))
    recsys.train(fields_of(days[1], tmp_path / "2", tmp_path / "1", epochs=1))
    history = read_history(tmp_path / "2")
    assert (history["permutation_distance"] == 0).all()


@pytest.mark.once("torch")
def test_weights_of_tasks_go_on_adapting(
    days: list[Path], settings: Settings, tmp_path: Path
) -> None:
    fields = {"weighting": "uncertainty", "data": str(days[0])}
    recsys.train(
        settings(tmp_path / "1", **fields, learning_rate=0.1, epochs=2)
    )
    recsys.train(fields_of(days[1], tmp_path / "2", tmp_path / "1", epochs=1))
    column = "click_task_weight"
    first, second = (read_history(tmp_path / run)[column] for run in "12")
    steps = abs(first.diff().iloc[-1])
    assert 0 < abs(second.iloc[0] - first.iloc[-1]) < 2 * steps


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gate": "softmax"}, "`gate` must be that of the run .*'top-k', to"),
        ({"num_experts": 5}, "`num_experts` must be .*, 4, to go on .*=5"),
        ({"architecture": "moe"}, "`architecture` must be .* 'mmoe'"),
        ({"interaction": "dcn"}, "`interaction` must be .* 'none'"),
        ({"optimizer": "adagrad"}, "`optimizer` must be .* 'adam'"),
        ({"warm_start": "gone"}, "^gone: expected the folder of a run"),
    ],
)
def test_another_model_is_refused(
    changes: dict[str, Any],
    message: str,
    days: list[Path],
    day_1: Path,
    tmp_path: Path,
) -> None:
    fields = fields_of(days[1], tmp_path / "run", day_1)
    with pytest.raises((ValueError, RunError), match=message):
        recsys.train(fields | changes)
    assert not (tmp_path / "run").exists()


@pytest.mark.once("torch")
def test_a_configuration_object_says_all_of_it(
    days: list[Path], day_1: Path, tmp_path: Path
) -> None:
    config = TrainConfig(**fields_of(days[1], tmp_path / "run", day_1))
    with pytest.raises(ValueError, match=r"`gate` must be .* 'top-k'.*'comet'"):
        recsys.train(config)


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("part", "column", "kind", "message"),
    [
        ("features", "user", None, "'user': expected 'id', .* Received: none"),
        ("features", "note", "number", "'note': expected none, .*: 'number'"),
        ("features", "device", "id", "'device': expected .*'hash'.*: 'id'"),
        ("tasks", "click", "regression", "'click': expected 'binary', .*"),
        ("tasks", "buy", "binary", "'buy': expected none, as in the run "),
        (
            "tasks",
            "click",
            {"type": "binary", "pos_weight": 2.0},
            "task 'click': expected 'binary', as in the run .*pos_weight",
        ),
    ],
)
def test_other_columns_are_refused(
    part: str,
    column: str,
    kind: Any,
    message: str,
    days: list[Path],
    day_1: Path,
    tmp_path: Path,
) -> None:
    data = shutil.copytree(days[1], tmp_path / "data")
    for name in ("train", "validation", "test"):
        rows = pd.read_parquet(data / f"{name}.parquet")
        rows.assign(note=1.0, buy=0).to_parquet(data / f"{name}.parquet")
    content = json.loads((data / "dataset.json").read_text())
    content[part][column] = kind
    if kind is None:
        del content[part][column]
    (data / "dataset.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=message):
        recsys.train(fields_of(data, tmp_path / "run", day_1))


@pytest.mark.once("torch")
def test_a_new_class_is_refused(day_1: Path, tmp_path: Path) -> None:
    data = write_day(tmp_path / "data", 5, classes=4)
    with pytest.raises(DataError, match=r"one of 3 classes of 'reason'.* 3"):
        recsys.train(fields_of(data, tmp_path / "run", day_1))


@pytest.mark.once("torch")
def test_a_run_of_an_earlier_version_has_no_optimizer(
    days: list[Path],
    day_1: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = shutil.copytree(day_1, tmp_path / "first")
    (first / "optimizer.npz").unlink()
    recsys.train(fields_of(days[1], tmp_path / "run", first, epochs=1))
    assert "expected the state of the optimizer. Received: none" in caplog.text
    with np.load(tmp_path / "run" / "optimizer.npz") as file:
        assert file["iteration"] == 10


@pytest.mark.once("torch")
def test_from_the_command_line(
    days: list[Path],
    day_1: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["train", "--from", str(day_1), "--data", str(days[1])]
    out = ["--out", str(tmp_path / "run")]
    assert command_line([*words, *out, "--epochs", "1"]) == 0
    capsys.readouterr()
    assert Run(tmp_path / "run").read_config().gate == "top-k"
    assert command_line([*words, "--out", "other", "--k", "1"]) == 2
    assert capsys.readouterr().err == (
        f"error: `k` must be that of the run {day_1}, 2, to go on from it. "
        "Received: k=1\n"
    )


@pytest.mark.once("torch")
def test_tune_begins_anew(
    days: list[Path], day_1: Path, tmp_path: Path
) -> None:
    fields = fields_of(days[1], tmp_path / "sweep", day_1)
    with pytest.raises(ValueError, match="`warm_start` must be left out"):
        recsys.tune(fields, 1)


def write_images(folder: Path, side: int) -> Path:
    rng = np.random.default_rng(side)
    images = Images.of(
        rng.integers(0, 256, (40, side, side, 1), dtype=np.uint8),
        {"kind": np.arange(40) % 3},
    )
    schema = Schema("photos", {"image": "image"}, {"kind": "multiclass"})
    splits = dict.fromkeys(("train", "validation", "test"), images)
    ImageDataset(schema, splits, {"kind": 3}).write(folder)
    return folder


@pytest.mark.once("torch")
def test_images_of_one_size(settings: Settings, tmp_path: Path) -> None:
    small, large = (
        write_images(tmp_path / str(side), side) for side in (16, 20)
    )
    fields = {"data": str(small), "preset": "svhn", "epochs": 1}
    recsys.train(settings(tmp_path / "first", **fields))
    recsys.train(fields_of(small, tmp_path / "second", tmp_path / "first"))
    with np.load(tmp_path / "second" / "optimizer.npz") as file:
        assert file["iteration"] == 2
    with pytest.raises(DataError, match=r"expected images \(16, 16, 1\)"):
        recsys.train(fields_of(large, tmp_path / "third", tmp_path / "first"))
