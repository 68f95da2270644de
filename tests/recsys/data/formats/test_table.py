import gzip
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal
from pyarrow import parquet

from recsys.data import DataError
from recsys.data import read_table
from recsys.data import write_table
from recsys.data.formats.table import check_distinct

SUFFIXES = [".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz"]


@pytest.fixture
def table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "integer": [3, -1, 2**62 + 1],
            "gaps": pd.Series([2**62 + 1, None, 7], dtype="Int64"),
            "text": ["a,b", 'say "é"\nthere', None],
            "digits": ["007", "7", None],
            "float": [0.1 + 0.2, 1e-300, None],
            "flag": [True, False, True],
        }
    )


def csv_file(folder: Path, text: str | bytes, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_round_trip(tmp_path: Path, table: pd.DataFrame, suffix: str) -> None:
    path = tmp_path / f"table{suffix}"
    write_table(table, path)
    if suffix != ".parquet":  # Whose values are texts.
        table["float"] = ["0.30000000000000004", "1e-300", None]
        table["flag"] = ["True", "False", "True"]
    assert_frame_equal(read_table(path), table)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_same_table_same_bytes(
    tmp_path: Path, table: pd.DataFrame, suffix: str
) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        write_table(table, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_table_without_rows(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table{suffix}"
    write_table(pd.DataFrame({"user": [], "item": []}), path)
    assert read_table(path).shape == (0, 2)


def test_the_index_of_a_parquet_file_is_a_column(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    frame = pd.DataFrame({"user": [9, 5, 6], "item": [1, 2, 3]})
    frame.set_index("user").to_parquet(path)
    assert_frame_equal(read_table(path)[["user", "item"]], frame)


def test_a_parquet_file_in_parts(tmp_path: Path) -> None:
    folder = tmp_path / "day=1" / "table.parquet"
    folder.mkdir(parents=True)
    parts = [pd.DataFrame({"user": [number]}) for number in (1, 2)]
    for number, part in enumerate(parts):
        write_table(part, folder / f"part-{number}.parquet")
    (folder / "_SUCCESS").touch()
    assert_frame_equal(read_table(folder), pd.DataFrame({"user": [1, 2]}))


def test_unsigned_integers_of_any_size_are_alike_in_both(
    tmp_path: Path,
) -> None:
    frame = pd.DataFrame({"user": np.array([1, 2**64 - 1], "uint64")})
    for suffix in SUFFIXES:
        path = tmp_path / f"table{suffix}"
        write_table(frame, path)
        assert read_table(path)["user"].tolist() == ["1", str(2**64 - 1)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["1", "2"], [1, 2]),
        (["007", "8"], ["007", "8"]),
        (["1.0", "2.5"], ["1.0", "2.5"]),
        (["5.0", "6.0"], ["5.0", "6.0"]),
        (["1e5", "100000"], ["1e5", "100000"]),
        (["250.0", "250.00"], ["250.0", "250.00"]),
        (["+7", "7"], ["+7", "7"]),
        ([" 7", "7"], [" 7", "7"]),
        (["-0", "0"], ["-0", "0"]),
        (["NaN", "NA"], ["NaN", "NA"]),
        (["0x10", "1"], ["0x10", "1"]),
        (["1", "x"], ["1", "x"]),
        (["true", "False"], ["true", "False"]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
    ],
)
def test_a_csv_column_gets_a_type_that_loses_nothing(
    tmp_path: Path, fields: list[str], expected: list[object]
) -> None:
    path = csv_file(tmp_path, "\n".join(["x", *fields]))
    assert read_table(path)["x"].tolist() == expected


def test_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    path = csv_file(tmp_path, b"\xef\xbb\xbfuser,item\r\n1,2\r\n")
    assert_frame_equal(read_table(path), pd.DataFrame({"user": [1], "item": 2}))


@pytest.mark.parametrize("row", ["3", "3,4,5"])
def test_rows_of_unequal_length_are_named(tmp_path: Path, row: str) -> None:
    path = csv_file(tmp_path, f"user,item\n1,2\n{row}\n5,6\n")
    with pytest.raises(DataError) as caught:
        read_table(path)
    assert str(caught.value) == (
        f"{path}, data row 2 (counted from 1): expected 2 fields. "
        f"Received: {row.count(',') + 1} in {row!r}"
    )


def test_a_row_of_unequal_length_far_down(tmp_path: Path) -> None:
    rows = ["1" * 99 + ",2"] * 20_000
    rows[-2] = "3"
    path = csv_file(tmp_path, "\n".join(["user,item", *rows]))
    with pytest.raises(DataError, match="data row 19999 "):
        read_table(path)


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "user,user\n1,2\n")
    with pytest.raises(DataError, match=r"Received: two columns 'user'$"):
        read_table(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_file(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(DataError, match=r"expected a file\. Received: none"):
        read_table(tmp_path / f"table{suffix}")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01" * 50])
def test_a_file_that_is_not_what_its_name_says(
    tmp_path: Path, suffix: str, content: bytes
) -> None:
    path = csv_file(tmp_path, content, f"table{suffix}")
    separated = "a tab-separated" if ".tsv" in suffix else "a comma-separated"
    kind = "a Parquet file" if suffix == ".parquet" else separated
    with pytest.raises(DataError, match=f"{path.name}: expected {kind}"):
        read_table(path)


def test_a_row_of_unequal_length_that_is_no_text(tmp_path: Path) -> None:
    path = csv_file(tmp_path, b"user,item\n1,2\n\xb9\n")
    with pytest.raises(DataError, match=r"data row 2 .* 2 fields. Received: 1"):
        read_table(path)


def test_latin_1_is_refused(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "user,title\n1,é\n".encode("latin-1"))
    with pytest.raises(DataError, match="UTF-8"):
        read_table(path)


def test_truncated_archive(tmp_path: Path) -> None:
    text = "user\n" + "\n".join(str(row**3) for row in range(9_999))
    whole = gzip.compress(text.encode())
    path = csv_file(tmp_path, whole[:-5000], "a.csv.gz")
    with pytest.raises(DataError, match="runcated"):
        read_table(path)


@pytest.mark.parametrize("name", ["a.xlsx", "a.csv.zip", "csv"])
def test_unknown_suffix(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=rf"Received: '{name}'$"):
        read_table(tmp_path / name)
    with pytest.raises(DataError, match=rf"Received: '{name}'$"):
        write_table(pd.DataFrame(), tmp_path / name)


def broken_text() -> pa.Table:
    """A column of texts, of which the second is no UTF-8."""
    offsets = np.array([0, 1, 2], np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"a\xff")]
    texts = pa.Array.from_buffers(pa.string(), 2, buffers)
    return pa.table({"user": texts})


def test_a_text_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(broken_text(), path)
    with pytest.raises(DataError, match=r"a\.parquet: expected a Parquet file"):
        read_table(path)


@pytest.mark.usefixtures("little_memory")
def test_a_small_file_that_does_not_fit_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"x": pa.nulls(1 << 22)}), path)
    assert path.stat().st_size < 1 << 16
    with pytest.raises(DataError, match=r"33,554,432 bytes of 4,194,304 rows$"):
        read_table(path)
    packed = gzip.compress(b"x\n" + (1 << 25) * b"7\n")
    path = csv_file(tmp_path, packed, "a.csv.gz")
    assert path.stat().st_size < 1 << 18
    with pytest.raises(DataError, match=r"a\.csv\.gz: expected at most"):
        read_table(path)


def test_many_columns_of_different_names_take_one_pass(tmp_path: Path) -> None:
    """Name by name, 50,000 columns would take minutes."""
    names = [f"column{number}" for number in range(50_000)]
    start = time.process_time()
    check_distinct(names, tmp_path)
    with pytest.raises(DataError, match="Received: two columns 'column49999'"):
        check_distinct([*names, names[-1]], tmp_path)
    assert time.process_time() - start < 5


def test_a_long_name_of_two_columns_is_shortened(tmp_path: Path) -> None:
    name = "n" * 1_000_000
    with pytest.raises(DataError, match="two columns 'n") as raised:
        check_distinct([name, name], tmp_path)
    assert len(str(raised.value)) < 1000
