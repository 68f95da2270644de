from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal
from pyarrow import parquet

from recsys.data import DataError
from recsys.data import read_table
from recsys.data import write_table
from recsys.data.formats.table_writer import table_writer

TEXTS = [".csv", ".tsv", ".csv.gz", ".tsv.gz"]
TABLE = pa.table(
    {
        "user": pa.array([3, None, 1]),
        "item": pa.array([7, 8, 9]),
        "name": pa.array(["a", None, "line\nbreak"]),
        "seen": pa.array([True, None, False]),
        "tags": pa.array([["a", "b"], [], None]),
        "score": pa.array([0.1, 1.0, 1e-9]),
        "when": pa.array([1, 2, 3], pa.timestamp("us")),
    },
    pa.schema(
        [
            ("user", pa.int64()),
            pa.field("item", pa.int64(), nullable=False),
            ("name", pa.string()),
            ("seen", pa.bool_()),
            ("tags", pa.list_(pa.string())),
            ("score", pa.float64()),
            ("when", pa.timestamp("us")),
        ]
    ),
)
any_size = pytest.mark.parametrize("size", [1, 2, 3])


def write(table: pa.Table, path: Path, size: int) -> Path:
    with table_writer(path, table.schema) as write_piece:
        for start in range(0, max(len(table), 1), size):
            write_piece(table.slice(start, size))
    return path


def at_once(path: Path, rows: int = 3) -> pd.DataFrame:
    """Writes what the pieces should come to, and returns the frame."""
    frame = TABLE[:rows].to_pandas().astype({"user": "Int64"})
    write_table(frame, path)
    return frame


@any_size
@pytest.mark.parametrize("suffix", TEXTS)
def test_a_text_has_the_bytes_of_one_that_is_written_at_once(
    tmp_path: Path, suffix: str, size: int
) -> None:
    at_once(tmp_path / f"once{suffix}")
    pieces = write(TABLE, tmp_path / f"pieces{suffix}", size)
    assert pieces.read_bytes() == (tmp_path / f"once{suffix}").read_bytes()


@any_size
def test_parquet_reads_as_one_that_is_written_at_once(
    tmp_path: Path, size: int
) -> None:
    at_once(tmp_path / "once.parquet")
    pieces = write(TABLE, tmp_path / "pieces.parquet", size)
    for read in (pd.read_parquet, read_table):
        frames = [read(pieces), read(tmp_path / "once.parquet")]
        for frame in frames:
            frame["tags"] = frame["tags"].map(list, na_action="ignore")
        assert_frame_equal(*frames)
    assert str(pd.read_parquet(pieces)["user"].dtype) == "Int64"
    assert str(pd.read_parquet(pieces)["item"].dtype) == "int64"


@pytest.mark.parametrize("suffix", [".parquet", *TEXTS])
def test_no_rows(tmp_path: Path, suffix: str) -> None:
    at_once(tmp_path / f"once{suffix}", rows=0)
    pieces = write(TABLE[:0], tmp_path / f"pieces{suffix}", 2)
    expected = read_table(tmp_path / f"once{suffix}")
    assert_frame_equal(read_table(pieces), expected, check_dtype=False)


@any_size
@pytest.mark.parametrize("suffix", [".parquet", *TEXTS])
def test_texts_are_what_they_were(
    tmp_path: Path, suffix: str, size: int
) -> None:
    texts = ["10.10", "1e5", "true", "NaN", "NA", None, " 7", 'a "b",\t', "\r"]
    table = pa.table({"a": texts, "b": pa.array(range(len(texts)))})
    read = read_table(write(table, tmp_path / f"out{suffix}", size))
    values = [None if pd.isna(text) else text for text in read["a"]]
    assert values == texts


def test_parquet_has_the_types_of_the_schema(tmp_path: Path) -> None:
    table = pa.table(
        {
            "small": pa.array([1, None], pa.uint8()),
            "id": pa.array([Decimal(2**70), None], pa.decimal128(38, 0)),
            "at": pa.array([1, None], pa.timestamp("ns", "Europe/Berlin")),
            "kind": pa.array(["a", None]).dictionary_encode(),
            "raw": pa.array([b"\xff", None]),
            "deep": pa.array([{"x": [2**53 + 1, None]}, None]),
        }
    )
    path = write(table, tmp_path / "out.parquet", 1)
    written = parquet.read_table(path)
    assert written.schema.types == table.schema.types
    assert written.to_pydict() == table.to_pydict()
    assert str(pd.read_parquet(path)["small"].dtype) == "UInt8"


def test_numbers_of_a_text_file_have_all_digits(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array([2**53 + 1, None]),
            "large": pa.array([2**64 - 1, None], pa.uint64()),
            "account": pa.array(
                [Decimal("12345678901234567891"), None], pa.decimal128(20, 0)
            ),
            "price": pa.array([Decimal("10.10"), None], pa.decimal128(5, 2)),
            "ids": pa.array([[2**53 + 1, None, 7], None]),
        }
    )
    path = write(table, tmp_path / "out.csv", 2)
    assert path.read_text().splitlines()[1:] == [
        "9007199254740993,18446744073709551615,12345678901234567891,10.10,"
        "9007199254740993||7",
        ",,,,",
    ]


def test_a_bar_in_a_list_is_named_with_its_row(tmp_path: Path) -> None:
    table = pa.table({"tags": [["a"], ["b"], ["c", "d|e"]]})
    with pytest.raises(DataError, match=r"column 'tags', data row 3 .*`\|`"):
        write(table, tmp_path / "out.csv", 2)
