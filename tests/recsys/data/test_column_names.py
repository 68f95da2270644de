"""Text files without a header, and headers that are forgotten."""

import gzip
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from recsys.data import DataError
from recsys.data import load
from recsys.data import prepare
from recsys.data import read_table
from recsys.data import write_table
from recsys.data.column_names import named_columns
from recsys.data.formats.separator import detected_separator

ROWS = [f"u{n % 7},{2**53 + 1 + n % 5},{n % 2},{n}" for n in range(40)]
NAMES = ["user", "item", "click", "when"]
GIVEN: dict[str, Any] = {"ids": "user,item", "binary": "click"}


def write(file: Path, rows: list[str], separator: str = ",") -> None:
    text = "".join(f"{row}\n" for row in rows).replace(",", separator)
    content = text.encode()
    file.write_bytes(
        gzip.compress(content) if file.suffix == ".gz" else content
    )


def prepared(folder: Path, **options: Any) -> pd.DataFrame:
    """All rows in their order."""
    out = folder.parent / "out"
    prepare("table", folder, out, progress=False, **(GIVEN | options))
    dataset = load(out)
    names = ("train", "validation", "test")
    return pd.concat(map(dataset.split, names), ignore_index=True)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("header", ["none", None])
@pytest.mark.parametrize(
    ("name", "separator"),
    [("a.csv", ","), ("a.csv", ";"), ("a.tsv", "\t"), ("a.csv.gz", ",")],
)
def test_the_first_row_is_data(
    name: str, separator: str, header: str | None, raw: Path
) -> None:
    write(raw / name, ROWS, separator)
    rows = prepared(raw, train=name, header=header, columns=NAMES, time="when")
    expected = [row.split(",") for row in ROWS]
    assert rows["user"].tolist() == [row[0] for row in expected]
    assert rows["item"].tolist() == [int(row[1]) for row in expected]
    assert rows["click"].tolist() == [float(row[2]) for row in expected]


def test_names_may_come_as_one_text(raw: Path) -> None:
    write(raw / "a.csv", ROWS)
    rows = prepared(
        raw, train="a.csv", header="none", columns="user,item,click,when"
    )
    assert len(rows) == 40


def test_several_files(raw: Path) -> None:
    write(raw / "a.csv", ROWS)
    write(raw / "b.csv", ROWS[:9])
    rows = prepared(raw, train="a.csv,b.csv", header="none", columns=NAMES)
    assert len(rows) == 49


def test_a_number_of_names_that_separates(tmp_path: Path) -> None:
    """Decimal commas do not hide the separator, as the names are counted."""
    file = tmp_path / "prices.csv"
    file.write_text("7;9,50;x\n8;3,20;y\n")
    assert detected_separator(file, 3) == ";"
    assert detected_separator(file) == ","
    table = read_table(file, names=["item", "price", "shop"])
    assert table["price"].tolist() == ["9,50", "3,20"]


def test_errors_count_rows_from_the_first_line(raw: Path) -> None:
    write(raw / "a.csv", ["u1,1,2,3", *ROWS])
    with pytest.raises(DataError, match=r"'click', data row 1 .*Received: 2"):
        prepared(raw, train="a.csv", header="none", columns=NAMES)
    write(raw / "a.csv", [*ROWS[:3], "u1,1"])
    with pytest.raises(DataError, match=r"data row 4 .* 4 fields.*: 2 in 'u1"):
        prepared(raw, train="a.csv", header="none", columns=NAMES)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"header": "no"}, "`header` must be first-row or none. Received: "),
        ({"header": "none"}, "`columns` must name each column .* columns="),
        ({"header": "none", "columns": "user,user"}, "with different names"),
        ({"header": "none", "columns": "user,,click"}, "`columns` must name"),
        ({"columns": "user,item"}, "`columns` must come with header=none"),
        ({"header": "none", "columns": "user,item,click"},
         "data row 1 .* expected 3 fields, one for each of the names .*: 4 in"),
        ({"header": "none", "columns": [*NAMES, "more"]},
         "data row 1 .* expected 5 fields, one for each of the names .*: 4 in"),
        ({"header": "none", "columns": ["a", "b", "c", "d"]},
         "a.csv: expected a column 'user'. Received: "),
    ],
)  # fmt: skip
def test_wrong_names_are_refused(
    options: dict[str, Any], message: str, raw: Path
) -> None:
    write(raw / "a.csv", ROWS)
    with pytest.raises((ValueError, DataError), match=message):
        prepared(raw, train="a.csv", **options)
    assert not (raw.parent / "out").exists()


def test_parquet_has_names(raw: Path) -> None:
    write_table(pd.DataFrame({"user": [1]}), raw / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet: expected a text file"):
        prepared(raw, train="a.parquet", header="none", columns="user")


@pytest.mark.parametrize(
    ("row", "looks", "received"),
    [
        ("7,8, 0, 0", "the first row looks like data", "two columns ' 0'"),
        ("u1,2026-01-31,x,y", "the first row looks like data", "'u1'"),
        ("u1,i1,,y", "the first row looks like data", "'u1'"),
        ("u1,i1,x,y", "where the first row is data", "'u1'"),
    ],
)
def test_a_forgotten_header_is_told(
    row: str, looks: str, received: str, raw: Path
) -> None:
    write(raw / "a.csv", [row, *ROWS])
    with pytest.raises(DataError) as caught:
        prepared(raw, train="a.csv")
    text = str(caught.value)
    assert f"{looks}: use --option header=none" in text
    assert received in text.partition("Received: ")[2]


def test_also_of_a_second_file_and_with_a_schema(raw: Path) -> None:
    write(raw / "a.csv", ["user,item,click,when", *ROWS])
    write(raw / "b.csv", ROWS)
    with pytest.raises(DataError, match=r"b\.csv.*looks like data"):
        prepared(raw, train="a.csv", test="b.csv")
    (raw / "schema.json").write_text(
        '{"name": "x", "features": {"user": "id"},'
        ' "tasks": {"click": "binary"}}'
    )
    write(raw / "b.csv", ["u1,7,1"] * 30)
    options = {"ids": (), "binary": (), "schema": "schema.json"}
    with pytest.raises(DataError, match=r"column 'user'.*like data"):
        prepared(raw, train="b.csv", **options)


def test_names_that_are_numbers_may_name_columns(raw: Path) -> None:
    """Ali-CCP's columns are called so; a misspelled one is no lost header."""
    write(raw / "a.csv", ["101,click", *(f"{n},{n % 2}" for n in range(30))])
    assert len(prepared(raw, train="a.csv", ids="[0-9]*")) == 30


COLUMNS = ["click", "101", "109_14", "D508", "wage per hour", "a[1]"]


def found(**wanted: list[str]) -> dict[str, str]:
    return named_columns(COLUMNS, wanted, "log.csv")


def test_names_and_patterns_in_the_order_of_the_table() -> None:
    wanted = {"binary": ["click"], "number": ["D*", "wage*"], "id": ["1??*"]}
    assert found(**wanted) == {
        "click": "binary",
        "101": "id",
        "109_14": "id",
        "D508": "number",
        "wage per hour": "number",
    }


def test_a_name_goes_before_a_pattern() -> None:
    types = found(id=["*"], number=["D508"], binary=["click"])
    assert types == {
        **dict.fromkeys(COLUMNS, "id"),
        "D508": "number",
        "click": "binary",
    }


def test_a_name_that_looks_like_a_pattern() -> None:
    assert found(id=["a[1]"]) == {"a[1]": "id"}


def test_a_column_may_be_told_twice_alike() -> None:
    assert found(id=["101", "101", "10*"]) == {"101": "id", "109_14": "id"}


@pytest.mark.parametrize("name", ["user", "x*", "CLICK"])
def test_nothing_of_that_name(name: str) -> None:
    with pytest.raises(DataError) as caught:
        found(id=["101", name])
    assert str(caught.value) == (
        f"log.csv: expected a column {name!r}. Received: the columns {COLUMNS}"
    )


@pytest.mark.parametrize("names", [["101"], ["10*"]])
def test_two_types(names: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        found(id=names, number=names)
    assert str(caught.value) == (
        "log.csv, column '101': expected one type. Received: id and number"
    )
