import gzip
from pathlib import Path

import pytest

from recsys.data import read_table
from recsys.data.formats.separator import detected_separator


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1;2\n", ";"),
        ("a;b\n1,5;2,5\n", ";"),
        ("a\tb\n1\t2\n", "\t"),
        ("a|b\n1|2\n", "|"),
        ("a|b", "|"),
        # What is quoted separates nothing.
        ('"a|b";c\n"1|2|3";4\n', ";"),
        ('"a\nb";c\n1;2\n', ";"),
        # A comma in the header, no row that is divided alike, or two ways.
        ("a;b,c\n1;2,3\n", ","),
        ("a;b\n1\n", ","),
        ("a|b;c\n1|2;3\n", ","),
        ("user\n7\n", ","),
        ("", ","),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_what_separates_the_fields(
    tmp_path: Path, text: str, separator: str, suffix: str
) -> None:
    path = tmp_path / f"a{suffix}"
    content = text.encode()
    path.write_bytes(gzip.compress(content) if "gz" in suffix else content)
    assert detected_separator(path) == separator


@pytest.mark.parametrize("suffix", [".tsv", ".tsv.gz"])
def test_the_fields_of_a_tsv_file_are_separated_by_tabs(
    tmp_path: Path, suffix: str
) -> None:
    assert detected_separator(tmp_path / f"a{suffix}") == "\t"


@pytest.mark.slow
def test_a_long_header(tmp_path: Path) -> None:
    names = [f"column {number}" for number in range(20_000)]
    path = tmp_path / "wide.csv"
    path.write_text(";".join(names) + "\n" + ";".join(["1"] * 20_000))
    assert read_table(path).shape == (1, 20_000)


def test_a_given_separator_holds(tmp_path: Path) -> None:
    path = tmp_path / "notes.dat"
    path.write_text("a;b|c\n1;2|3\n")
    assert list(read_table(path, ";")) == ["a", "b|c"]
    assert list(read_table(path, "|")) == ["a;b", "c"]
