"""Runs day by day whose ids come and go."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import recsys
from recsys import Dataset
from recsys import Schema
from recsys.cli import run as command_line
from recsys.runs.run import Run
from tests.recsys.api.interruptions import train_and_copy
from tests.recsys.conftest import NewRun

pytestmark = pytest.mark.slow

LARGE = 2**53
SCHEMA = Schema("log", {"user": "id", "item": "id"}, {"click": "binary"})


def write_day(folder: Path, first: int) -> Path:
    """Users are texts, items large integers; both from `first` on."""
    rng = np.random.default_rng(first)
    splits = {}
    for name, count in {"train": 96, "validation": 32, "test": 32}.items():
        item = rng.integers(first, first + 9, count)
        splits[name] = pd.DataFrame(
            {
                "user": [
                    f"u{n}" for n in rng.integers(first, first + 6, count)
                ],
                "item": LARGE + item,
                "click": item % 2 * 1.0,
            }
        )
    Dataset(SCHEMA, splits).write(folder)
    return folder


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("days")
    return [write_day(folder / "1", 0), write_day(folder / "2", 4)]


@pytest.fixture(scope="module")
def day_1(days: list[Path], new_run: NewRun) -> Path:
    """The run of the first day; not to be changed."""
    return new_run(
        data=str(days[0]), epochs=1, max_rows=9, table_optimizer="lazy-adam"
    )


def fields_of(data: Path, out: Path, source: Path) -> dict[str, Any]:
    paths = {"data": data, "out": out, "warm_start": source}
    return {name: str(path) for name, path in paths.items()} | {"epochs": 2}


def ids_of(run: Path) -> dict[str, list[Any]]:
    ranker = recsys.load_ranker(run)
    assert all(
        vocabulary.uses is not None and vocabulary.uses.day > 0
        for vocabulary in ranker.vocabularies.values()
    )
    return {
        name: vocabulary.values.tolist()
        for name, vocabulary in ranker.vocabularies.items()
    }


@pytest.mark.once("torch")
def test_a_second_day_takes_the_rows_of_the_first_bit_for_bit(
    days: list[Path], day_1: Path, tmp_path: Path
) -> None:
    """Also ended before its first checkpoint, without the first run."""
    first, parts = shutil.copytree(day_1, tmp_path / "1"), tmp_path / "parts"
    train_and_copy(
        fields_of(days[1], tmp_path / "whole", first), {(0, 1): parts}
    )
    shutil.rmtree(first)
    recsys.train(fields_of(days[1], parts, first), resume=True)
    before, ids = ids_of(day_1), ids_of(parts)
    assert ids == ids_of(tmp_path / "whole")
    # Eight rows for nine items of each day: those of the second alone took
    # the rows of those of the first alone.
    assert len(before["item"]) == len(ids["item"]) == 8
    assert {type(id) for id in ids["item"]} == {int}
    assert len(set(before["item"]) & set(ids["item"])) < 8
    for number, id in enumerate(ids["item"]):
        assert id not in before["item"] or before["item"][number] == id
    whole, resumed = (
        recsys.load_ranker(tmp_path / name) for name in ("whole", "parts")
    )
    for one, other in zip(whole.weights, resumed.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    states = [
        np.load(tmp_path / name / "optimizer.npz")
        for name in ("whole", "parts")
    ]
    for name in states[0].files:
        np.testing.assert_array_equal(states[0][name], states[1][name])


@pytest.mark.once("torch")
def test_days_have_the_ids_that_the_log_says(
    days: list[Path], day_1: Path
) -> None:
    """The same on all backends: the most recent, then the most frequent."""
    for name in ("user", "item"):
        counts = pd.read_parquet(days[0] / "train.parquet")[name].value_counts()
        order = counts.sort_index().sort_values(ascending=False, kind="stable")
        assert ids_of(day_1)[name] == sorted(order.index[:8])


@pytest.mark.once("torch")
def test_streamed_days_have_the_same_ids(
    days: list[Path], day_1: Path, tmp_path: Path
) -> None:
    fields = fields_of(days[1], tmp_path / "held", day_1) | {"epochs": 1}
    recsys.train(fields)
    streamed = {"out": str(tmp_path / "streamed"), "streaming": True}
    recsys.train(fields | streamed)
    assert ids_of(tmp_path / "streamed") == ids_of(tmp_path / "held")


@pytest.mark.once("torch")
def test_from_the_command_line(
    days: list[Path],
    day_1: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["train", "--from", str(day_1), "--data", str(days[1])]
    words += ["--evict-after", "1", "--epochs", "1"]
    assert command_line([*words, "--out", str(tmp_path / "run")]) == 0
    train = pd.read_parquet(days[1] / "train.parquet")
    held, ids = (ids_of(run)["user"] for run in (day_1, tmp_path / "run"))
    assert sorted(ids) == sorted(train["user"].unique())
    come, gone = set(ids) - set(held), set(held) - set(ids)
    assert (
        f"Ids of user: {len(ids)}; {len(come)} came, {len(gone)} left\n"
        in capsys.readouterr().out
    )
    assert Run(tmp_path / "run").read_config().max_rows == 9
    assert command_line([*words, "--max-rows", "1", "--out", "other"]) == 2
    assert "`max_rows` must be at least 2." in capsys.readouterr().err
