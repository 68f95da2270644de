from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal
from pyarrow import parquet

from recsys.data import DataError
from recsys.data import read_table
from recsys.data import write_table
from recsys.data.formats.table import to_frame
from recsys.data.streaming.table_stream import TableStream

any_suffix = pytest.mark.parametrize("suffix", [".parquet", ".csv", ".tsv.gz"])
FRAME = pd.DataFrame(
    {
        "title": ["x", 'a "quoted", one', "line\nbreak", None, "y"],
        "user": [3, 1, 2, 1, None],
        "item": [7, 8, 9, 7, 8],
        "code": ["1", "2", "3", "4", "007"],
        "age": [31, 4, 18, 4, 5.5],
        "seen": [True, None, False, True, True],
    }
).astype({"user": "Int64"})


def write(frame: pd.DataFrame, file: Path) -> Path:
    if file.suffix == ".parquet":
        frame.to_parquet(file, index=False, row_group_size=3)
    else:
        write_table(frame, file)
    return file


def opened(path: Path, *columns: str) -> TableStream:
    scratch = path.parent / "scratch"
    scratch.mkdir()
    return TableStream(path, columns, scratch, piece_rows=2)


def frames(stream: TableStream) -> Iterator[pd.DataFrame]:
    for piece, where in stream.pieces():
        assert piece.schema.equals(stream.schema)
        yield to_frame(piece, where)


def refusal(path: Path, *columns: str) -> str:
    with pytest.raises(DataError) as caught:
        list(opened(path, *columns).pieces())
    return str(caught.value).removeprefix(str(path.parent))


@any_suffix
def test_pieces_together_are_the_table(tmp_path: Path, suffix: str) -> None:
    file = write(FRAME, tmp_path / f"log{suffix}")
    pieces = list(frames(opened(file, "user")))
    sizes = [2, 1, 2] if suffix == ".parquet" else [2, 2, 1]
    assert [len(piece) for piece in pieces] == sizes
    joined = pd.concat(pieces, ignore_index=True)
    assert_frame_equal(joined, read_table(file), check_dtype=False)
    assert joined["code"].tolist() == ["1", "2", "3", "4", "007"]


@any_suffix
def test_integers_that_are_missing_nowhere(tmp_path: Path, suffix: str) -> None:
    schema = opened(write(FRAME, tmp_path / f"log{suffix}")).schema
    kinds = read_table(tmp_path / f"log{suffix}").dtypes
    assert kinds["user"] == "Int64"
    assert kinds["item"] == "int64"
    assert schema.field("user").nullable
    assert not schema.field("item").nullable


@any_suffix
def test_where_a_piece_comes_from(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "log").mkdir()
    for index in range(2):
        write(FRAME, tmp_path / "log" / f"{index}{suffix}")
    stream = opened(tmp_path / "log")
    places = [
        (Path(str(rows.file)).name, rows.first_row)
        for _, rows in stream.pieces()
    ]
    starts = [0, 2, 3] if suffix == ".parquet" else [0, 2, 4]
    assert places == [
        (f"{index}{suffix}", start) for index in range(2) for start in starts
    ]


@pytest.mark.parametrize(
    ("first", "second", "values"),
    [
        ([1], ["007"], ["1", "007"]),
        (["007"], [1], ["007", "1"]),
        ([1], [0.5], [1.0, 0.5]),
        ([1, None], [None, None], [1, None, None, None]),
        ([0.5], ["x"], ["0.5", "x"]),
    ],
)
@any_suffix
def test_a_column_has_one_type_in_all_parts(
    tmp_path: Path,
    suffix: str,
    first: list[Any],
    second: list[Any],
    values: list[Any],
) -> None:
    (tmp_path / "log").mkdir()
    for name, part in {"1": first, "2": second}.items():
        column = pd.Series(part, dtype="Int64" if None in part else None)
        frame = pd.DataFrame({"a": column, "b": [8] * len(part)})
        write(frame, tmp_path / "log" / f"{name}{suffix}")
    stream = opened(tmp_path / "log")
    read = pa.concat_tables(piece for piece, _ in stream.pieces())
    assert read["a"].to_pylist() == values


def test_types_of_parquet_files(tmp_path: Path) -> None:
    table = pa.table(
        {
            "small": pa.array([1, 2], pa.int8()),
            "large": pa.array([1, 2**64 - 1], pa.uint64()),
            "fits": pa.array([1, 2], pa.uint64()),
            "price": pa.array([1, 2], pa.decimal128(5, 2)),
            "when": pa.array([0, 1], pa.timestamp("us")),
            "tags": pa.array([["a"], []]),
            "kind": pa.array(["a", "b"]).dictionary_encode(),
        }
    )
    parquet.write_table(table, tmp_path / "log.parquet", row_group_size=1)
    stream = opened(tmp_path / "log.parquet", "small")
    assert stream.schema.types[:4] == [
        pa.int64(),
        pa.string(),
        pa.int64(),
        pa.float64(),
    ]
    joined = pd.concat(list(frames(stream)), ignore_index=True)
    expected = read_table(tmp_path / "log.parquet")
    for one in (joined, expected):
        one["tags"] = one["tags"].map(list)
    assert_frame_equal(joined, expected)


@any_suffix
def test_no_rows_are_one_piece(tmp_path: Path, suffix: str) -> None:
    file = write(FRAME[:0], tmp_path / f"log{suffix}")
    (piece,) = frames(opened(file, "user"))
    assert list(piece) == list(FRAME)
    assert piece.empty


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    message = refusal(tmp_path / "log.parquet")
    assert (
        message == "/log.parquet: expected a file. Received: none of that name"
    )


@any_suffix
def test_a_column_that_is_missing(tmp_path: Path, suffix: str) -> None:
    file = write(FRAME[["user"]], tmp_path / f"log{suffix}")
    assert refusal(file, "user", "item") == (
        f"/log{suffix}: expected a column 'item'. Received: the columns "
        "['user']"
    )


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("a,a\n1,2\n")
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    parquet.write_table(table, tmp_path / "log.parquet")
    for suffix in (".csv", ".parquet"):
        with pytest.raises(DataError, match="two columns 'a'"):
            TableStream(tmp_path / f"log{suffix}", [], tmp_path)


@pytest.mark.parametrize("shorter", ["1", "2"])
@any_suffix
def test_parts_of_different_columns(
    tmp_path: Path, suffix: str, shorter: str
) -> None:
    (tmp_path / "log").mkdir()
    for name in ("1", "2"):
        part = FRAME[["user"]] if name == shorter else FRAME[["user", "age"]]
        write(part, tmp_path / "log" / f"{name}{suffix}")
    message = refusal(tmp_path / "log", "user")
    assert "expected a column 'age'. Received: the columns ['user']" in message


def test_parts_of_types_without_a_common_one(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    for name, value in {"1": [1], "2": 1}.items():
        frame = pd.DataFrame({"a": [value]})
        write(frame, tmp_path / "log" / f"{name}.parquet")
    assert refusal(tmp_path / "log") == (
        "/log, column 'a': expected parts with the same type of a column. "
        "Received: int64 and list<element: int64>"
    )
