from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
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
        assert stream.alike(piece).schema.equals(stream.schema)
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


def test_integers_that_are_missing_nowhere(tmp_path: Path) -> None:
    schema = opened(write(FRAME, tmp_path / "log.parquet")).schema
    kinds = read_table(tmp_path / "log.parquet").dtypes
    assert kinds["user"] == "Int64"
    assert kinds["item"] == "int64"
    assert schema.field("user").nullable
    assert not schema.field("item").nullable


@any_suffix
def test_all_pieces_of_a_text_file_are_texts_where_they_are_alike(
    tmp_path: Path, suffix: str
) -> None:
    stream = opened(write(FRAME, tmp_path / f"log{suffix}"))
    kinds = {str(kind) for kind in stream.schema.types}
    assert (kinds == {"string"}) == (suffix != ".parquet")


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


BIG = 2**53 + 1
GREATEST = 2**64 - 1


def parts_of(folder: Path, *arrays: pa.Array) -> TableStream:
    """Opens a folder of Parquet files with a column each."""
    (folder / "log").mkdir()
    for index, array in enumerate(arrays):
        table = pa.table({"a": array, "b": pa.nulls(len(array))})
        parquet.write_table(table, folder / "log" / f"{index}.parquet")
    return opened(folder / "log", "b")


def read_alike(stream: TableStream) -> list[Any]:
    pieces = [stream.alike(piece) for piece, _ in stream.pieces()]
    return list(pa.concat_tables(pieces)["a"].to_pylist())


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["1"], ["007"]),
        (["1"], ["0.50"]),
        ([str(BIG)], ["5.0"]),
        (["1", None], [None, None]),
        (["0.5"], ["x", "1e5"]),
        (["True"], ["NaN"]),
    ],
)
def test_texts_of_all_parts_are_what_they_were(
    tmp_path: Path, suffix: str, first: list[Any], second: list[Any]
) -> None:
    (tmp_path / "log").mkdir()
    for name, part in {"1": first, "2": second}.items():
        frame = pd.DataFrame({"a": part, "b": [8] * len(part)})
        write(frame, tmp_path / "log" / f"{name}{suffix}")
    assert read_alike(opened(tmp_path / "log")) == first + second


@pytest.mark.parametrize(
    ("first", "second", "kind", "values"),
    [
        (pa.array([1]), pa.array(["007"]), "string", ["1", "007"]),
        (pa.array(["007"]), pa.array([1]), "string", ["007", "1"]),
        (pa.array([1]), pa.array([0.5]), "double", [1.0, 0.5]),
        (pa.array([BIG]), pa.array([5.0, 0.5]), "string",
         [str(BIG), "5", "0.5"]),
        (pa.array([BIG]), pa.array([5], pa.int8()), "int64", [BIG, 5]),
        (pa.array([GREATEST], pa.uint64()), pa.array([-1]), "string",
         [str(GREATEST), "-1"]),
        (pa.array([BIG], pa.uint64()), pa.array([-1]), "int64", [BIG, -1]),
        (pa.array([BIG]), pa.array([Decimal(10**19)], pa.decimal128(20, 0)),
         "decimal128(20, 0)", [Decimal(BIG), Decimal(10**19)]),
        (pa.array([Decimal(BIG)], pa.decimal128(20, 0)), pa.array([5.0]),
         "string", [str(BIG), "5"]),
        (pa.array([1, None]), pa.nulls(1), "int64", [1, None, None]),
        (pa.array([0.5]), pa.array(["x"]), "string", ["0.5", "x"]),
        (pa.array(["a"]).dictionary_encode(), pa.array(["b"]), "string",
         ["a", "b"]),
        (pa.array(["a"]).dictionary_encode(), pa.array([7]), "string",
         ["a", "7"]),
        (pa.array(["a"], pa.large_string()), pa.array(["b"]), "large_string",
         ["a", "b"]),
        (pa.array([1], pa.timestamp("ms")), pa.array([2], pa.timestamp("us")),
         "timestamp[us]", [datetime(1970, 1, 1, 0, 0, 0, 1000),
                           datetime(1970, 1, 1, 0, 0, 0, 2)]),
        (pa.array([32503680000 * 10**6], pa.timestamp("us")),
         pa.array([2], pa.timestamp("ns")), "string",
         ["3000-01-01 00:00:00.000000", "1970-01-01 00:00:00.000000002"]),
        (pa.array([True]), pa.array([2]), "string", ["True", "2"]),
        (pa.array([b"a"]), pa.array(["b"]), "string", ["YQ==", "b"]),
        (pa.array([[1, 2]]), pa.array([3]), "string", ["[1, 2]", "3"]),
        (pa.array([{"x": 1}]), pa.array([{"y": 1}]), "string",
         ['{"x": 1}', '{"y": 1}']),
    ],
)  # fmt: skip
def test_parts_of_other_types_have_one_in_which_no_value_is_another(
    tmp_path: Path, first: Any, second: Any, kind: str, values: list[Any]
) -> None:
    stream = parts_of(tmp_path, first, second)
    assert str(stream.schema.field("a").type) == kind
    assert read_alike(stream) == values
    pieces = [piece["a"].to_pylist() for piece, _ in stream.pieces()]
    assert pieces == [first[:2].to_pylist(), second[:2].to_pylist()]


def test_types_of_parquet_files_are_kept(tmp_path: Path) -> None:
    table = pa.table(
        {
            "small": pa.array([1, 2], pa.int8()),
            "large": pa.array([1, GREATEST], pa.uint64()),
            "price": pa.array([1, 2], pa.decimal128(5, 2)),
            "when": pa.array([0, 1], pa.timestamp("us", "Europe/Berlin")),
            "tags": pa.array([["a"], []]),
            "kind": pa.array(["a", "b"]).dictionary_encode(),
            "place": pa.array([{"x": [1]}, None]),
            "raw": pa.array([b"\xff", None]),
        }
    )
    parquet.write_table(table, tmp_path / "log.parquet", row_group_size=1)
    stream = opened(tmp_path / "log.parquet", "small")
    written = parquet.read_table(tmp_path / "log.parquet")
    assert stream.schema.types == written.schema.types
    pieces = [stream.alike(piece) for piece, _ in stream.pieces()]
    assert pa.concat_tables(pieces).to_pydict() == table.to_pydict()


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
