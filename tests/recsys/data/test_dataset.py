import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from pandas.testing import assert_series_equal

from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data import load

SPLITS = ("train", "validation", "test")
SUFFIXES = (".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
any_suffix = pytest.mark.parametrize("suffix", SUFFIXES)

FolderWriter = Callable[..., Path]


def refusal(folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        load(folder)
    return str(caught.value).removeprefix(str(folder))


@any_suffix
def test_every_file_type_gives_the_same_frames(
    write_folder: FolderWriter,
    schema: Schema,
    frame: pd.DataFrame,
    suffix: str,
) -> None:
    dataset = load(str(write_folder(suffix)))
    assert dataset.schema == schema
    for split in SPLITS:
        assert_frame_equal(dataset.split(split), frame)


@any_suffix
@pytest.mark.parametrize(
    "ids",
    [
        pd.Series([2**60 + 1, None, 7], dtype="Int64", name="user"),
        pd.Series(["u1", None, "007"], name="user"),
    ],
)
def test_ids_keep_their_type_beside_missing_ones(
    write_folder: FolderWriter,
    frame: pd.DataFrame,
    suffix: str,
    ids: "pd.Series[Any]",
) -> None:
    frames = dict.fromkeys(SPLITS, frame.assign(user=ids))
    dataset = load(write_folder(suffix, **frames))
    assert_series_equal(dataset.split("train")["user"], ids)


@any_suffix
def test_ids_are_strings_in_all_splits_if_in_one(
    write_folder: FolderWriter, frame: pd.DataFrame, suffix: str
) -> None:
    test = frame.assign(user=["u1", "2", None])
    dataset = load(write_folder(suffix, test=test))
    assert dataset.split("train")["user"].tolist() == ["3", "1", "2"]
    assert dataset.split("test")["user"][:2].tolist() == ["u1", "2"]


def test_a_split_without_any_id_follows_the_others(
    write_folder: FolderWriter, frame: pd.DataFrame
) -> None:
    texts = frame.assign(user=["a", "b", "c"])
    test = frame.assign(user=None)
    dataset = load(write_folder(train=texts, validation=texts, test=test))
    assert dataset.split("train")["user"].tolist() == ["a", "b", "c"]
    assert dataset.split("test")["user"].isna().all()


@any_suffix
def test_further_columns_are_ignored_and_the_order_is_the_schema_s(
    write_folder: FolderWriter, frame: pd.DataFrame, suffix: str
) -> None:
    wide = frame[frame.columns[::-1]].assign(title=["a", None, "b, c"])
    dataset = load(write_folder(suffix, train=wide))
    assert_frame_equal(dataset.split("train"), frame)


def test_truth_values_are_binary_labels(
    write_folder: FolderWriter, frame: pd.DataFrame
) -> None:
    folder = write_folder(train=frame.assign(watch=[True, False, None]))
    labels = load(folder).split("train")["watch"].tolist()
    assert labels[:2] == [1, 0]
    assert math.isnan(labels[2])


def test_unknown_split(schema: Schema, frame: pd.DataFrame) -> None:
    dataset = Dataset(schema, dict.fromkeys(SPLITS, frame))
    with pytest.raises(DataError, match=r"films: .*Received: 'dev'$"):
        dataset.split("dev")


def test_missing_folder(tmp_path: Path) -> None:
    message = refusal(tmp_path / "none")
    assert message == ": expected a data folder. Received: no folder there"


def test_missing_schema(write_folder: FolderWriter) -> None:
    folder = write_folder()
    (folder / "dataset.json").unlink()
    assert refusal(folder).startswith("/dataset.json: expected a file.")


@pytest.mark.parametrize("content", [b"{", b"\xff\xff"])
def test_broken_schema(write_folder: FolderWriter, content: bytes) -> None:
    folder = write_folder()
    (folder / "dataset.json").write_bytes(content)
    assert refusal(folder).startswith("/dataset.json")


@pytest.mark.parametrize("split", SPLITS)
def test_missing_split(write_folder: FolderWriter, split: str) -> None:
    folder = write_folder()
    (folder / f"{split}.csv").unlink()
    assert refusal(folder) == (
        f": expected one of the files {[split + end for end in SUFFIXES]}, "
        f"or a folder '{split}' of parts. Received: none of them"
    )


def test_a_split_that_is_there_twice(write_folder: FolderWriter) -> None:
    folder = write_folder()
    (folder / "test.parquet").write_bytes(b"")
    message = refusal(folder)
    assert message.endswith("Received: ['test.parquet', 'test.csv']")


@any_suffix
def test_missing_column(
    write_folder: FolderWriter, frame: pd.DataFrame, suffix: str
) -> None:
    folder = write_folder(suffix, validation=frame.drop(columns="watch"))
    assert refusal(folder) == (
        f"/validation{suffix}: expected a column 'watch'. "
        "Received: the columns ['user', 'age', 'rating']"
    )


@any_suffix
def test_no_rows(
    write_folder: FolderWriter, frame: pd.DataFrame, suffix: str
) -> None:
    folder = write_folder(suffix, test=frame[:0])
    message = f"/test{suffix}: expected at least one row. Received: no rows"
    assert refusal(folder) == message


@any_suffix
@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("watch", 3, "0, 1 or nothing. Received: 3"),
        ("rating", "good", "a finite number. Received: 'good'"),
        ("rating", float("inf"), "a finite number. Received: inf"),
        ("age", "old", "a finite number. Received: 'old'"),
    ],
)
def test_a_value_outside_its_type(
    write_folder: FolderWriter,
    frame: pd.DataFrame,
    suffix: str,
    column: str,
    value: Any,
    expected: str,
) -> None:
    values = [None, value, None]
    if isinstance(value, str):
        values[0] = "1"
    folder = write_folder(suffix, train=frame.assign(**{column: values}))
    message = refusal(folder).replace("3.0", "3")
    if suffix != ".parquet" and not isinstance(value, str):
        expected = expected.replace(
            f"Received: {value}", f"Received: '{value}'"
        )
    assert message == (
        f"/train{suffix}, column '{column}', data row 2 (counted from 1): "
        f"expected {expected}"
    )


def test_a_written_folder_reads_the_same(
    tmp_path: Path, schema: Schema, frame: pd.DataFrame
) -> None:
    dataset = Dataset(schema, dict.fromkeys(SPLITS, frame))
    dataset.write(tmp_path / "new" / "films")
    again = load(tmp_path / "new" / "films")
    assert again.schema == schema
    assert_frame_equal(again.split("test"), frame)


def test_an_empty_folder_is_filled(
    tmp_path: Path, schema: Schema, frame: pd.DataFrame
) -> None:
    Dataset(schema, dict.fromkeys(SPLITS, frame)).write(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


def test_nothing_is_overwritten(
    tmp_path: Path, schema: Schema, frame: pd.DataFrame
) -> None:
    dataset = Dataset(schema, dict.fromkeys(SPLITS, frame))
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match=r"Received: a folder with files in"):
        dataset.write(tmp_path)
    with pytest.raises(DataError, match=r"Received: a file$"):
        dataset.write(tmp_path / "notes.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_failed_write_leaves_nothing(
    tmp_path: Path, schema: Schema, frame: pd.DataFrame
) -> None:
    dataset = Dataset(schema, {"train": frame})
    with pytest.raises(KeyError):
        dataset.write(tmp_path / "films")
    assert not list(tmp_path.iterdir())
