from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from rich.progress import Progress

from recsys.data import DataError
from recsys.data.datasets.ratings import parse_ratings

SILENT = Progress(disable=True)


def parsed(text: str, separator: str = "::") -> pd.DataFrame:
    file = Path("ratings.dat")
    return parse_ratings(text.encode(), file, separator, SILENT)


@pytest.mark.parametrize("separator", ["::", "\t"])
@pytest.mark.parametrize("timestamp", [[], ["978300760"]])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_three_or_four_fields(
    separator: str, timestamp: list[str], end: str
) -> None:
    rows = [["6040", "1193", "5"], ["1", "661", "3"]]
    lines = [separator.join(row + timestamp) for row in rows]
    expected = pd.DataFrame(
        {"user": [6040, 1], "item": [1193, 661], "rating": [5.0, 3.0]}
    )
    if timestamp:
        expected["time"] = [978300760] * 2
    for text in (end.join(lines), end.join([*lines, ""])):
        assert_frame_equal(parsed(text, separator), expected)


@pytest.mark.parametrize(
    "line",
    [
        "1::2",
        "1::2::",
        "1::2::3::4",
        "1,2,3",
        "one::2::3",
        "-1::2::3",
        "1::2::0",
        "1::2::6",
        "1::2::3.5",
        "1::2::good",
        "1234567890123456789::2::3",
        "",
    ],
)
def test_a_broken_line_is_named(line: str) -> None:
    with pytest.raises(DataError) as caught:
        parsed(f"7::8::3\n{line}\n7::9::3\n")
    assert str(caught.value) == (
        "ratings.dat, line 2: expected 'user::item::rating', whole numbers, "
        f"rating 1 to 5. Received: {line!r}"
    )


@pytest.mark.parametrize("line", ["1\t2\t3\t4", "1::2", "1::2::3::4::5"])
def test_a_broken_first_line_is_named(line: str) -> None:
    with pytest.raises(DataError, match=r"^ratings\.dat, line 1: expected 'u"):
        parsed(f"{line}\n7::8::3\n")


def test_a_truncated_last_line() -> None:
    with pytest.raises(DataError, match=r"line 2: .*Received: '1::66'$"):
        parsed("1::1193::5\n1::66")


def test_a_line_that_lost_its_timestamp() -> None:
    with pytest.raises(DataError, match=r"line 2: .*rating::timestamp'"):
        parsed("1::1193::5::978300760\n1::66::3")


def test_lines_are_counted_over_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("recsys.data.formats.lines.CHUNK", 64)
    good = [f"{user}::7::4" for user in range(100)]
    assert parsed("\n".join(good))["user"].tolist() == list(range(100))
    good[77] = "77::7"
    with pytest.raises(DataError, match="line 78: "):
        parsed("\n".join(good))


def test_a_repeated_pair() -> None:
    with pytest.raises(DataError) as caught:
        parsed("1::2::3\n1::3::3\n2::2::3\n1::2::4\n")
    assert str(caught.value) == (
        "ratings.dat, line 4: expected each user's rating of an item once. "
        "Received: user 1, item 2 again"
    )


def test_an_empty_file() -> None:
    with pytest.raises(DataError, match=r"^ratings\.dat: .*an empty file$"):
        parsed("")
