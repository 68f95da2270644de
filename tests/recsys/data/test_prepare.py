import logging
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.progress import Progress

from recsys.columns.kind import declarations
from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import load
from recsys.data import prepare
from recsys.data.datasets.movielens import MOVIELENS_100K
from recsys.data.prepare import DATA_SETS

NAMES = ("movielens-1m", "movielens-100k")
any_data_set = pytest.mark.parametrize("name", NAMES)


def ratings(rng: np.random.Generator) -> list[list[str]]:
    """100 ratings: 10 users, 10 of 30 movies each, with timestamps."""
    return [
        [str(user), str(item + 1), str(rng.integers(1, 6)), "978300760"]
        for user in range(1, 11)
        for item in rng.permutation(30)[:10]
    ]


@pytest.fixture
def raw_dir(tmp_path: Path, rng: np.random.Generator) -> Path:
    """A folder with a small download of each data set."""
    folder = tmp_path / "raw"
    folder.mkdir()
    rows = ratings(rng)
    lines = "".join("::".join(row) + "\n" for row in rows)
    (folder / "ratings.dat").write_text(lines)
    with zipfile.ZipFile(folder / "ml-100k.zip", "w") as archive:
        lines = "".join("\t".join(row) + "\n" for row in rows)
        archive.writestr("ml-100k/u.data", lines)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@any_data_set
def test_a_small_download(raw_dir: Path, tmp_path: Path, name: str) -> None:
    rows = prepare(name, raw_dir, tmp_path / "out", progress=False)
    assert rows == {"train": 157, "validation": 23, "test": 20}
    dataset = load(tmp_path / "out")
    assert dataset.schema.name == name
    assert declarations(dataset.schema.features) == {"user": "id", "item": "id"}
    assert declarations(dataset.schema.tasks) == {
        "watch": "binary",
        "rating": "regression",
    }
    splits = [dataset.split(split) for split in rows]
    assert [len(split) for split in splits] == list(rows.values())
    everything = pd.concat(splits)
    assert everything["watch"].sum() == 100
    assert not everything.duplicated(["user", "item"]).any()


@any_data_set
def test_same_seed_same_bytes(raw_dir: Path, tmp_path: Path, name: str) -> None:
    for out, seed in (("a", 1), ("b", 1), ("c", 2)):
        prepare(name, raw_dir, tmp_path / out, seed, progress=False)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a") != contents(tmp_path / "c")


def test_both_formats_give_the_same_rows(raw_dir: Path, tmp_path: Path) -> None:
    for name in NAMES:
        prepare(name, raw_dir, tmp_path / name, progress=False)
    first, second = (load(tmp_path / name).split("train") for name in NAMES)
    assert first.equals(second)


def test_a_subset_is_noted(
    raw_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        prepare("movielens-1m", raw_dir, tmp_path / "out", progress=False)
    assert caplog.messages == [
        f"{raw_dir / 'ratings.dat'} holds 100 ratings, movielens-1m has "
        "1000209: prepared as a subset."
    ]


def test_a_full_download_with_other_counts_is_refused(
    raw_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MOVIELENS_100K.counts, "ratings", 100)
    with pytest.raises(DataError, match=r"u\.data: expected {'ratings': 100,"):
        prepare("movielens-100k", raw_dir, tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()


def test_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        prepare("netflix", tmp_path, tmp_path / "out")
    assert str(caught.value) == (
        f"`name`: expected one of the data sets {sorted(DATA_SETS)}. "
        "Received: 'netflix'"
    )


def test_negative_seed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`seed`.*Received: seed=-1$"):
        prepare("movielens-1m", tmp_path, tmp_path / "out", seed=-1)


def test_a_seed_that_no_generator_takes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`seed`.*Received: seed=4294967296$"):
        prepare("movielens-1m", tmp_path, tmp_path / "out", seed=2**32)


def test_an_option_that_a_data_set_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="options") as caught:
        prepare("digits", tmp_path, tmp_path / "out", scale="5")
    assert str(caught.value) == (
        "`options` of the data set 'digits' must be among none. "
        "Received: 'scale'"
    )


def test_options_come_typed_and_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Dataset
) -> None:
    received = {}

    def data_set(
        raw_dir: Path,
        seed: int,
        progress: Progress,
        columns: list[str],
        scale: float = 5.0,
        time: str | None = None,
    ) -> Dataset:
        received.update(columns=columns, scale=scale, time=time)
        return tiny

    monkeypatch.setitem(DATA_SETS, "own", data_set)
    options = {"columns": "user,item", "scale": "2"}
    prepare("own", tmp_path, tmp_path / "out", progress=False, **options)
    assert received == {"columns": ["user", "item"], "scale": 2.0, "time": None}
    with pytest.raises(ValueError, match=r"'own' must name columns. Received"):
        prepare("own", tmp_path, tmp_path / "b", progress=False, scale=2.0)


@any_data_set
def test_missing_download(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"expected one of the files"):
        prepare(name, tmp_path, tmp_path / "out", progress=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"::", b","), (b"::", b"::x"), (b"978300760\n", b"\n"), (b"::", b":")],
)
def test_a_broken_download_leaves_nothing(
    raw_dir: Path, tmp_path: Path, old: bytes, new: bytes
) -> None:
    file = raw_dir / "ratings.dat"
    file.write_bytes(file.read_bytes().replace(old, new))
    with pytest.raises(DataError, match=r"ratings\.dat, line 1: expected"):
        prepare("movielens-1m", raw_dir, tmp_path / "out", progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_a_truncated_download_leaves_nothing(
    raw_dir: Path, tmp_path: Path
) -> None:
    file = raw_dir / "ratings.dat"
    file.write_bytes(file.read_bytes()[:-14])
    with pytest.raises(DataError, match=r"ratings\.dat, line 100: expected"):
        prepare("movielens-1m", raw_dir, tmp_path / "out", progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


@pytest.mark.parametrize(
    "interrupted", ["datasets.movielens.two_tasks", "dataset.write_table"]
)
def test_an_interruption_leaves_nothing(
    raw_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    interrupted: str,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"recsys.data.{interrupted}", interrupt)
    with pytest.raises(KeyboardInterrupt):
        prepare("movielens-1m", raw_dir, tmp_path / "out", progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_an_existing_folder_is_refused_before_any_work(
    raw_dir: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"expected a new or empty folder"):
        prepare("movielens-1m", tmp_path / "none", raw_dir)


def test_progress_is_silent_unless_on_a_terminal(
    raw_dir: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    prepare("movielens-100k", raw_dir, tmp_path / "out")
    out, err = capfd.readouterr()
    assert out == ""
    assert "Reading" not in err


def test_progress_streams_on_a_terminal(
    raw_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    prepare("movielens-100k", raw_dir, tmp_path / "shown")
    err = capfd.readouterr().err
    assert "Reading u.data" in err
    assert "Sampling users" in err
    prepare("movielens-100k", raw_dir, tmp_path / "silent", progress=False)
    assert "Reading" not in capfd.readouterr().err
