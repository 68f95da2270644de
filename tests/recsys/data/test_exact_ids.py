"""An id is one text in every file, and however that is read."""

import csv
import gzip
import tempfile
from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from pyarrow import parquet

from recsys.data import Dataset
from recsys.data import Schema
from recsys.data import read_table
from recsys.data.formats.table_writer import table_writer
from recsys.data.streaming.frames import column_parts
from recsys.data.streaming.split_stream import SplitStream
from recsys.data.streaming.table_stream import TableStream
from recsys.features import Id

SCHEMA = Schema("log", {"user": "id"}, {"click": "binary"})
Ids = list[str | None]

EDGES = [
    sign * (power + step)
    for power in (0, 2**53, 2**63, 2**64)
    for step in (-2, -1, 0, 1, 2)
    for sign in (1, -1)
]
integers = st.sampled_from(EDGES) | st.integers(-(2**80), 2**80)
looking_like_numbers = st.sampled_from(
    [
        *("007", " 7", "7 ", "7.0", "+7", "7e0", "1e5", "100000", "250.00"),
        *("250.0", "NaN", "NA", "null", "None", "True", "true", "-0", "inf"),
    ]
)
texts = st.text(
    st.characters(exclude_categories=["Cs"]),
    min_size=1,
    max_size=5,
)
any_id = st.none() | integers.map(str) | looking_like_numbers | texts


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def write_text(ids: Ids, file: Path) -> None:
    """Writes ids as another program does, without a look at what they are."""
    opened: Any = gzip.open if file.suffix == ".gz" else open
    tab = "\t" if ".tsv" in file.suffixes else ","
    with opened(file, "wt", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter=tab)
        writer.writerow(["click", "user"])
        writer.writerows([1, id] for id in ids)


def column_of(ids: Ids, kind: str) -> pa.Array:
    """The ids in an Arrow type, texts where they are none of it."""
    numbers = [None if id is None else as_int(id) for id in ids]
    whole = [
        id is None or (number is not None and str(number) == id)
        for id, number in zip(ids, numbers, strict=True)
    ]
    fitting = all(whole) and all(
        number is None or abs(number) < 2**53 for number in numbers
    )
    try:
        if kind == "float" and fitting:
            return pa.array(numbers, pa.float64())
        if kind == "decimal" and all(whole):
            decimals = [n if n is None else Decimal(n) for n in numbers]
            return pa.array(decimals, pa.decimal128(30, 2))
        if kind in ("int64", "uint64", "int8") and all(whole):
            return pa.array(numbers, kind)
    except (OverflowError, pa.ArrowInvalid):
        pass
    texts = pa.array(ids, pa.string())
    return texts.dictionary_encode() if kind == "dictionary" else texts


def as_int(id: str) -> int | None:
    try:
        return int(id)
    except ValueError:
        return None


def write_parquet(ids: Ids, file: Path, kind: str, group_rows: int) -> None:
    table = pa.table(
        {"click": pa.array([1] * len(ids)), "user": column_of(ids, kind)}
    )
    parquet.write_table(table, file, row_group_size=group_rows)


def write_splits(place: Path) -> None:
    for split in ("validation", "test"):
        pd.DataFrame({"click": [1], "user": ["x"]}).to_csv(
            place / f"{split}.csv", index=False
        )
    (place / "dataset.json").write_text(SCHEMA.to_json())


def as_texts(ids: "pd.Series[Any]") -> Ids:
    return [None if pd.isna(id) else str(id) for id in ids]


def check_train(
    place: Path,
    expected: Ids,
    passed_to: Sequence[str] = (".parquet", ".tsv", ".csv.gz"),
) -> None:
    """Checks the training split in memory, streamed, and passed on."""
    read = Dataset.read(place).split("train")["user"]
    assert as_texts(read) == expected
    stream = SplitStream(place, "train", SCHEMA.columns, group_rows=2)
    streamed = [
        id for part in column_parts(stream, "user") for id in as_texts(part)
    ]
    assert streamed == expected
    (place / "scratch").mkdir()
    (train,) = place.glob("train*")
    table = TableStream(train, ["user"], place / "scratch", piece_rows=2)
    for suffix in passed_to:
        out = place / f"out{suffix}"
        with table_writer(out, table.schema) as write:
            for piece, _ in table.pieces():
                write(table.alike(piece))
        passed = Id().check(read_table(out)["user"], out)
        assert as_texts(passed) == expected


@settings(deadline=None, max_examples=12)
@given(
    st.lists(st.lists(any_id, max_size=4), min_size=1, max_size=3),
    st.sampled_from([".csv", ".tsv.gz"]),
)
def test_ids_of_text_files(parts: list[Ids], suffix: str) -> None:
    parts[0].append("a")
    with folder() as place:
        write_splits(place)
        (place / "train").mkdir()
        for index, ids in enumerate(parts):
            write_text(ids, place / "train" / f"{index}{suffix}")
        check_train(place, sum_of(parts))


@settings(deadline=None, max_examples=12)
@given(
    st.lists(
        st.tuples(
            st.lists(st.none() | integers.map(str), max_size=4)
            | st.lists(st.none() | looking_like_numbers, max_size=4),
            st.sampled_from(
                [*("int64", "uint64", "int8", "float", "decimal"),
                 *("dictionary", "string")]
            ),
        ),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 3),
)  # fmt: skip
def test_ids_of_parquet_parts_of_several_types(
    parts: list[tuple[Ids, str]], group_rows: int
) -> None:
    parts[0][0].append("5")
    with folder() as place:
        write_splits(place)
        (place / "train").mkdir()
        for index, (ids, kind) in enumerate(parts):
            file = place / "train" / f"{index}.parquet"
            write_parquet(ids, file, kind, group_rows)
        # A text file has 5.0 of a float, and 5.00 of such a decimal.
        written = {kind for _, kind in parts} & {"float", "decimal"}
        check_train(
            place,
            sum_of([ids for ids, _ in parts]),
            [".parquet"] if written else [".parquet", ".tsv"],
        )


def sum_of(parts: list[Ids]) -> Ids:
    return [id for ids in parts for id in ids]


@pytest.mark.parametrize("used", [True, False])
def test_a_column_that_nobody_uses_never_makes_a_reading_fail(
    tmp_path: Path, used: bool
) -> None:
    write_splits(tmp_path)
    (tmp_path / "train").mkdir()
    others = [
        pa.array([0, 1], pa.timestamp("ms")),
        pa.array([2**62, 1], pa.timestamp("us", "Europe/Berlin")),
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array([[2**53 + 1, None], None]),
        pa.array([{"x": 1}, None]),
    ]
    for index, other in enumerate(others):
        columns = {"click": pa.array([1, 0]), "user": pa.array([7, index])}
        table = pa.table({**columns, "other": other})
        parquet.write_table(table, tmp_path / "train" / f"{index}.parquet")
    if used:
        check_train(tmp_path, sum_of([["7", str(i)] for i in range(5)]))
    else:
        assert len(Dataset.read(tmp_path).split("train")) == 10
