"""Splits that are folders of parts."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data import write_table
from recsys.data.split_files import split_files

PartsWriter = Callable[..., Path]
any_suffix = pytest.mark.parametrize("suffix", [".parquet", ".csv.gz"])


@pytest.fixture
def write_parts(
    tmp_path: Path, schema: Schema, frame: pd.DataFrame
) -> PartsWriter:
    """Writes a data folder whose training split is a folder of parts."""

    def write(parts: dict[str, pd.DataFrame], schema: Schema = schema) -> Path:
        for name in ("validation", "test"):
            write_table(frame, tmp_path / f"{name}.csv")
        (tmp_path / "dataset.json").write_text(schema.to_json())
        (tmp_path / "train").mkdir()
        for name, part in parts.items():
            write_table(part, tmp_path / "train" / name)
        return tmp_path

    return write


def refusal(folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        Dataset.read(folder)
    return str(caught.value).removeprefix(str(folder))


@any_suffix
def test_parts_are_joined_in_natural_order(
    write_parts: PartsWriter, frame: pd.DataFrame, suffix: str
) -> None:
    folder = write_parts(
        {
            f"part-10{suffix}": frame[2:],
            f"part-9{suffix}": frame[1:2],
            f"part-1{suffix}": frame[:1],
        }
    )
    assert_frame_equal(Dataset.read(folder).split("train"), frame)


def test_order_does_not_depend_on_the_file_system(tmp_path: Path) -> None:
    names = ["1.csv", "01.csv", "2b.csv", "2a.csv", "a.csv", "10.csv"]
    (tmp_path / "train").mkdir()
    for name in names:
        (tmp_path / "train" / name).touch()
    assert [file.name for file in split_files(tmp_path, "train")] == [
        "01.csv",
        "1.csv",
        "2a.csv",
        "2b.csv",
        "10.csv",
        "a.csv",
    ]


@any_suffix
def test_one_text_among_the_parts_makes_all_ids_texts(
    write_parts: PartsWriter, frame: pd.DataFrame, suffix: str
) -> None:
    texts = frame.assign(user=["a", None, "7"])
    folder = write_parts(
        {f"1{suffix}": frame, f"2{suffix}": texts, f"3{suffix}": frame[:0]}
    )
    dataset = Dataset.read(folder)
    ids = dataset.split("train")["user"]
    assert ids.dropna().tolist() == ["3", "1", "2", "a", "7"]
    assert ids.isna().tolist() == [False] * 4 + [True, False]
    assert dataset.split("test")["user"].tolist() == ["3", "1", "2"]


@any_suffix
def test_lists_in_parts(
    write_parts: PartsWriter, frame: pd.DataFrame, suffix: str
) -> None:
    schema = Schema("films", {"tags": "ids"}, {"watch": "binary"})
    frame["tags"] = [["a", "b"], [], ["7"]]
    parts = {f"1{suffix}": frame, f"2{suffix}": frame[1:]}
    folder = write_parts(parts, schema)
    for name in ("validation", "test"):
        write_table(frame, folder / f"{name}.csv")
    tags = Dataset.read(folder).split("train")["tags"]
    assert [list(one) for one in tags] == [
        ["a", "b"],
        [],
        ["7"],
        [],
        ["7"],
    ]


def test_what_other_programs_leave_is_no_part(
    write_parts: PartsWriter, frame: pd.DataFrame
) -> None:
    folder = write_parts({"part-0.parquet": frame})
    (folder / "train" / "_SUCCESS").touch()
    (folder / "train" / ".part-0.parquet.crc").touch()
    (folder / "train").rename(folder / "train.parquet")  # As Spark calls it.
    assert_frame_equal(Dataset.read(folder).split("train"), frame)


def test_a_file_and_a_folder(
    write_parts: PartsWriter, frame: pd.DataFrame
) -> None:
    folder = write_parts({"1.csv": frame})
    write_table(frame, folder / "train.csv")
    assert refusal(folder).endswith("Received: ['train', 'train.csv']")


def test_an_empty_folder(write_parts: PartsWriter) -> None:
    message = refusal(write_parts({}))
    assert (
        message
        == "/train: expected at least one part. Received: an empty folder"
    )


def test_parts_of_two_types(
    write_parts: PartsWriter, frame: pd.DataFrame
) -> None:
    folder = write_parts({"1.csv": frame, "2.parquet": frame})
    assert refusal(folder) == (
        "/train: expected parts of one suffix. "
        "Received: parts of ['.csv', '.parquet']"
    )


@pytest.mark.parametrize(
    ("name", "received"),
    [("notes.txt", "a file 'notes.txt'"), ("day=1/", "a folder 'day=1'")],
)
def test_what_is_no_part(
    write_parts: PartsWriter, frame: pd.DataFrame, name: str, received: str
) -> None:
    folder = write_parts({"1.csv": frame})
    place = folder / "train" / name
    if name.endswith("/"):
        place.mkdir()
    else:
        place.touch()
    message = refusal(folder)
    assert message.startswith("/train: expected only parts, files that end in")
    assert message.endswith(f"Received: {received}")


@any_suffix
def test_a_part_that_is_a_link_to_nothing(
    write_parts: PartsWriter, frame: pd.DataFrame, suffix: str
) -> None:
    folder = write_parts({f"1{suffix}": frame})
    (folder / "train" / f"2{suffix}").symlink_to(folder / "gone")
    message = f"/train/2{suffix}: expected a file. Received: a broken link"
    assert refusal(folder) == message


@any_suffix
def test_a_part_without_a_column(
    write_parts: PartsWriter, frame: pd.DataFrame, suffix: str
) -> None:
    parts = {f"1{suffix}": frame, f"2{suffix}": frame.drop(columns="age")}
    assert refusal(write_parts(parts)) == (
        f"/train/2{suffix}: expected a column 'age'. "
        "Received: the columns ['user', 'watch', 'rating']"
    )


@any_suffix
def test_a_wrong_value_is_named_with_its_part_and_row(
    write_parts: PartsWriter, frame: pd.DataFrame, suffix: str
) -> None:
    wrong = frame.assign(watch=[1, 3, 1])
    folder = write_parts({f"1{suffix}": frame, f"2{suffix}": wrong})
    assert refusal(folder) == (
        f"/train/2{suffix}, column 'watch', data row 2 (counted from 1): "
        "expected 0, 1 or nothing. Received: 3"
    )


def test_a_class_that_training_has_not(
    write_parts: PartsWriter, frame: pd.DataFrame
) -> None:
    schema = Schema("films", {"user": "id"}, {"why": "multiclass"})
    folder = write_parts({"1.csv": frame.assign(why=[0, 2, 1])}, schema)
    write_table(frame.assign(why=[0, 1, 0]), folder / "validation.csv")
    (folder / "test.csv").unlink()
    (folder / "test").mkdir()
    write_table(frame.assign(why=[0, 1, 2]), folder / "test" / "1.csv")
    write_table(frame.assign(why=[0, 3, 2]), folder / "test" / "2.csv")
    assert refusal(folder) == (
        "/test/2.csv, column 'why', data row 2 (counted from 1): expected "
        "one of the classes 0 to 2 of the training split. Received: 3.0"
    )


@pytest.mark.parametrize("column", ["watch", None])
def test_parts_without_a_row_or_a_label(
    write_parts: PartsWriter, frame: pd.DataFrame, column: str | None
) -> None:
    empty = frame.assign(watch=None, rating=None) if column else frame[:0]
    message = refusal(write_parts({"1.csv": empty, "2.csv": empty}))
    assert message == (
        "/train: expected a label of at least one of ['watch', 'rating']. "
        "Received: none in 6 rows"
        if column
        else "/train: expected at least one row. Received: no rows"
    )
