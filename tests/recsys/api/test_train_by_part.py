"""Trainings on the parts of a split, one after the other."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recsys
from recsys.cli import run as command_line
from recsys.config.train_config import TrainConfig
from tests.recsys.api.interruptions import interrupt_at
from tests.recsys.api.test_id_turnover import ids_of
from tests.recsys.api.test_id_turnover import write_day

pytestmark = [pytest.mark.slow, pytest.mark.once("torch")]

PARTS = ("2026.01.31", "2026.02.01")  # As days are named, too.


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a part for each of two days, and a split for both."""
    folder = write_day(tmp_path_factory.mktemp("log") / "log", 0)
    first = (folder / "train.parquet").rename(folder.parent / "first")
    (folder / "train").mkdir()
    first.rename(folder / "train" / f"{PARTS[0]}.parquet")
    second = write_day(folder.parent / "second", 4) / "train.parquet"
    second.rename(folder / "train" / f"{PARTS[1]}.parquet")
    return folder


def fields_of(data: Path, out: Path, **changes: Any) -> dict[str, Any]:
    return {"data": str(data), "out": str(out), "epochs": 1} | changes


@pytest.fixture(scope="module")
def by_part(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("by-part")
    metrics = recsys.train_by_part(fields_of(log, out, max_rows=9))
    assert [*metrics] == [*PARTS]
    assert metrics[PARTS[1]]["test"]["loss"] > 0
    return out


def assert_same(one: Path, other: Path) -> None:
    weights = [recsys.load_ranker(run).weights for run in (one, other)]
    for first, second in zip(*weights, strict=True):
        np.testing.assert_array_equal(first.numpy(), second.numpy())
    assert ids_of(one) == ids_of(other)


def test_parts_are_days_that_go_on_from_the_day_before(
    by_part: Path, tmp_path: Path
) -> None:
    """Ids are texts, and integers above 2^53."""
    runs = [by_part / "runs" / name for name in PARTS]
    days = [by_part / "data" / name for name in PARTS]
    start, going_on = tmp_path / "1", tmp_path / "2"
    recsys.train(fields_of(days[0], start, max_rows=9))
    recsys.train(fields_of(days[1], going_on, warm_start=str(start)))
    assert_same(runs[0], start)
    assert_same(runs[1], going_on)
    before, after = (ids_of(run) for run in runs)
    for name in ("user", "item"):
        assert len(after[name]) <= 8
        assert set(before[name]) != set(after[name])


def test_an_interrupted_part_is_resumed_and_a_finished_one_stays(
    log: Path,
    by_part: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["train", "--by-part", "--data", str(log), "--epochs", "1"]
    words += ["--max-rows", "9", "--out", str(tmp_path / "out")]
    first, second = (tmp_path / "out" / "runs" / name for name in PARTS)
    real = recsys.api.train_by_part.train

    def interrupted(config: Any, resume: bool) -> Any:
        if config.out == str(second):
            interrupt_at(monkeypatch, epoch=0, batch=0)
        return real(config, resume)

    with monkeypatch.context() as patch:
        patch.setattr(recsys.api.train_by_part, "train", interrupted)
        assert command_line(words) == 130
    assert "the same command with --resume" in capsys.readouterr().out
    monkeypatch.undo()
    trained = (first / "model.keras").stat().st_mtime_ns
    assert command_line(words) == 1  # There are files.
    assert command_line([*words, "--resume"]) == 0
    assert f"are in {second}\n" in capsys.readouterr().out
    assert (first / "model.keras").stat().st_mtime_ns == trained
    assert_same(second, by_part / "runs" / PARTS[1])


@pytest.mark.parametrize(
    ("given", "refit"), [({}, False), ({"refit": True}, True)]
)
def test_no_part_learns_the_split_that_validates_the_next(
    log: Path,
    given: dict[str, Any],
    refit: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trained = []

    def train(config: TrainConfig, resume: bool) -> dict[str, Any]:
        trained.append((config.refit, config.refit_towers))
        return {}

    monkeypatch.setattr("recsys.api.train_by_part.train", train)
    recsys.train_by_part(fields_of(log, tmp_path / "run", **given))
    # Without a refit, there is none of the towers, either.
    assert trained == [(refit, None)] * 2


def test_a_split_in_one_file_has_no_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_day(tmp_path / "day", 0)
    words = ["train", "--by-part", "--out", str(tmp_path / "out"), "--data"]
    assert command_line([*words, str(folder)]) == 1
    error = capsys.readouterr().err
    assert "expected a training split that is a folder of parts" in error
    assert "Received: one file, 'train.parquet'" in error
    assert not (tmp_path / "out").exists()
    for data in ("synthetic", str(tmp_path / "nothing")):
        assert command_line([*words, data]) == 1
        error = capsys.readouterr().err
        assert f"{data}: expected a data folder. Received: no folder" in error
    assert command_line([*words, str(folder), "--distribute", "data"]) == 2
