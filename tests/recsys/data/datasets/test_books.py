import logging
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from rich.progress import Progress

import recsys.data.datasets.books as books_module
from recsys.columns.kind import declarations
from recsys.data import DataError
from recsys.data import load
from recsys.data import prepare
from recsys.data.datasets.books import FILTERS
from recsys.data.datasets.books import k_core
from recsys.data.datasets.books import one_pass
from recsys.data.datasets.books import parse_records

SILENT = Progress(disable=True)
FILE = Path("BX-Book-Ratings.csv")
HEADER = '"User-ID";"ISBN";"Book-Rating"'
EXPECTED = '"user";"ISBN";"rating", a whole number and a rating 0 to 10'


def text(*lines: str, end: str = "\r\n", encoding: str = "latin-1") -> bytes:
    return "".join(line + end for line in (HEADER, *lines)).encode(encoding)


def parsed(*lines: str, **form: str) -> pd.DataFrame:
    return parse_records(text(*lines, **form), FILE, SILENT)


def splits_of(folder: Path) -> dict[str, pd.DataFrame]:
    dataset = load(folder)
    names = ("train", "validation", "test")
    return {name: dataset.split(name) for name in names}


@pytest.fixture
def raw_dir(tmp_path: Path, rng: np.random.Generator) -> Path:
    """20 users with 10 of 15 books each; every third record is a rating."""
    folder = tmp_path / "raw"
    folder.mkdir()
    lines = [
        f'"{user}";"05{book:07d}X";"{(number % 3 == 0) * (1 + number % 10)}"'
        for user in range(1, 21)
        for number, book in enumerate(rng.permutation(15)[:10])
    ]
    (folder / FILE).write_bytes(text(*lines, '"99";"é";"7"'))
    return folder


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_published_form(end: str) -> None:
    lines = ['"276725";"034545104X";"0"', '"8";"0155061224";"10"']
    expected = pd.DataFrame(
        {
            "user": [276725, 8],
            "item": ["034545104X", "0155061224"],
            "rating": [0.0, 10.0],
        }
    )
    assert_frame_equal(parsed(*lines, end=end), expected)


@pytest.mark.parametrize("isbn", ["3ä4", '\\"045', "9;8", " 0-330"])
def test_an_isbn_keeps_every_character(isbn: str) -> None:
    assert parsed(f'"1";"{isbn}";"5"')["item"].tolist() == [isbn]


@pytest.mark.parametrize(
    "line",
    [
        '"1";"034545104X"',
        '"1";"034545104X";""',
        '"1";"034545104X";"11"',
        '"1";"034545104X";"-1"',
        '"1";"034545104X";"7.5"',
        '"1";"034545104X";"good"',
        '"one";"034545104X";"5"',
        '"1";"";"5"',
        "1;034545104X;5",
        '"1","034545104X","5"',
        '"1";"0345451',
        "",
    ],
)
def test_a_broken_line_is_named(line: str) -> None:
    with pytest.raises(DataError) as caught:
        parsed('"7";"8";"3"', line, '"7";"9";"3"')
    assert str(caught.value) == (
        f"{FILE}, line 3: expected {EXPECTED}. Received: {line!r}"
    )


@pytest.mark.parametrize(
    "header",
    ['"User-ID";"Book-Rating"', '"276725";"034545104X";"0"', "", "User-ID"],
)
def test_a_missing_column_is_named(header: str) -> None:
    content = f'{header}\n"7";"8";"3"\n'.encode()
    with pytest.raises(DataError) as caught:
        parse_records(content, FILE, SILENT)
    assert str(caught.value) == (
        f"{FILE}, line 1: expected {HEADER}. Received: {header!r}"
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_another_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(DataError, match=r"line 1: expected \"User-ID\";"):
        parsed('"7";"8";"3"', encoding=encoding)


def test_a_repeated_record() -> None:
    with pytest.raises(DataError, match=r"line 4: .*user 7, item 8 again$"):
        parsed('"7";"8";"3"', '"7";"9";"3"', '"7";"8";"0"')


@pytest.mark.parametrize("packed", [False, True])
def test_the_two_tasks(raw_dir: Path, tmp_path: Path, packed: bool) -> None:
    if packed:
        file = raw_dir / FILE
        with zipfile.ZipFile(raw_dir / "BX-CSV-Dump.zip", "w") as archive:
            archive.write(file, FILE.name)
        file.unlink()
    out = tmp_path / "out"
    assert prepare("books", raw_dir, out, progress=False) == {
        "train": 140,
        "validation": 30,
        "test": 30,
    }
    schema = load(out).schema
    assert declarations(schema.features) == {"user": "id", "item": "id"}
    assert declarations(schema.tasks) == {
        "watch": "binary",
        "rating": "regression",
    }
    splits = splits_of(out)
    for split in splits.values():
        assert split["watch"].mean() == pytest.approx(0.4, abs=0.02)
    rows = pd.concat(splits.values())
    assert not rows.duplicated(["user", "item"]).any()
    assert (rows["rating"].notna() == (rows["watch"] == 1)).all()
    assert set(rows["rating"].dropna()) == {1.0, 4.0, 7.0, 10.0}


def test_the_options(raw_dir: Path, tmp_path: Path) -> None:
    """User 50 has 5 books of others, and 5 that nobody else has."""
    rare = ("a", "b", "c", "d", "e", *(f"05{n:07d}X" for n in range(5)))
    with (raw_dir / FILE).open("ab") as file:
        file.writelines(f'"50";"{isbn}";"0"\n'.encode() for isbn in rare)

    def users(**options: Any) -> "pd.Series[int]":
        out = tmp_path / str(options)
        prepare("books", raw_dir, out, progress=False, **options)
        return pd.concat(splits_of(out).values())["user"].value_counts()

    assert users(min_records="1")[99] == 1
    assert users(min_records="6", keep="one-pass")[50] == 5
    assert 50 not in users(min_records="6")


def test_options_outside_their_bounds(raw_dir: Path, tmp_path: Path) -> None:
    wrong: dict[str, dict[str, Any]] = {
        "`keep`": {"keep": "twice"},
        "`min_records`": {"min_records": 0},
    }
    for name, options in wrong.items():
        with pytest.raises(ValueError, match=rf"{name} must be .* Received"):
            prepare("books", raw_dir, tmp_path / "out", **options)
        assert not (tmp_path / "out").exists()


def test_same_seed_same_bytes(raw_dir: Path, tmp_path: Path) -> None:
    for out, seed in (("a", 1), ("b", 1), ("c", 2)):
        prepare("books", raw_dir, tmp_path / out, seed, progress=False)
    first, again, other = (
        {path.name: path.read_bytes() for path in (tmp_path / out).iterdir()}
        for out in "abc"
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    "content", [b"", text(), text('"1";"2";"3"'), text("broken")]
)
def test_a_useless_download_leaves_nothing(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(DataError, match="expected"):
        prepare("books", tmp_path, tmp_path / "out", progress=False)
    assert [path.name for path in tmp_path.iterdir()] == [FILE.name]


def test_a_whole_download_with_other_counts(
    raw_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Facts of the download must hold; what a filter leaves is compared."""
    release = {"records": 201, "users": 21, "books": 16}
    monkeypatch.setattr(books_module, "RELEASE", release)
    with caplog.at_level(logging.WARNING):
        prepare("books", raw_dir, tmp_path / "a", progress=False)
    assert caplog.messages == [
        f"{raw_dir / FILE}: keep=k-core leaves {{'records': 200, "
        "'users': 20, 'books': 15}, the papers have {'records': 556724, "
        "'users': 18960, 'books': 31070}."
    ]
    monkeypatch.setitem(release, "books", 17)
    with pytest.raises(DataError, match=r"expected {'records': 201, 'users'"):
        prepare("books", raw_dir, tmp_path / "b", progress=False)


def test_the_real_subset(real_data: Path, tmp_path: Path) -> None:
    folder = real_data / "book-crossing"
    file = folder / FILE
    if not file.exists():
        pytest.skip(f"{file} is not there")
    records = parse_records(file.read_bytes(), file, SILENT)
    assert len(records) == 100_726
    assert (records["rating"] == 0).sum() == 65_204
    prepare("books", folder, tmp_path / "out", progress=False)
    rows = pd.concat(splits_of(tmp_path / "out").values())
    assert not rows.duplicated(["user", "item"]).any()
    for column in ("user", "item"):
        assert rows[column].value_counts().min() >= 5


# User 3 has two records, one of a book that is then too rare.
CHAIN = pd.DataFrame(
    {"user": [1, 1, 2, 2, 3, 3, 4], "item": list("abababc"[:4]) + list("acb")}
)

tables = st.lists(
    st.tuples(st.integers(1, 6), st.integers(1, 6)), unique=True
).map(lambda pairs: pd.DataFrame(pairs, columns=["user", "item"]))
minimum = st.integers(1, 3)


def pairs(records: pd.DataFrame) -> list[tuple[int, str]]:
    return list(zip(records["user"], records["item"], strict=True))


def test_one_pass_counts_among_all_records() -> None:
    # Books a: 3, b: 3, c: 1; users 1 to 3: 2, user 4: 1.
    assert pairs(one_pass(CHAIN, 2)) == [
        (1, "a"),
        (1, "b"),
        (2, "a"),
        (2, "b"),
        (3, "a"),
    ]


def test_the_k_core_counts_among_the_kept_ones() -> None:
    # User 3 is left with one record, and goes.
    kept = [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    assert pairs(k_core(CHAIN, 2)) == kept


def test_nothing_is_dropped_with_a_minimum_of_1() -> None:
    for keep in FILTERS.values():
        assert keep(CHAIN, 1).equals(CHAIN)


@settings(deadline=None, max_examples=50)
@given(tables, minimum)
def test_everything_left_in_the_k_core_has_enough(
    records: pd.DataFrame, minimum: int
) -> None:
    kept = k_core(records, minimum)
    for column in ("user", "item"):
        assert (kept[column].value_counts() >= minimum).all()
    assert set(kept.index) <= set(one_pass(records, minimum).index)


@pytest.mark.parametrize("name", FILTERS)
def test_no_records(name: str) -> None:
    assert FILTERS[name](CHAIN[:0], 2).empty
