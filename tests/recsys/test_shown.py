import pytest

from recsys.shown import printable
from recsys.shown import shown


def test_an_integer_that_python_does_not_write_out() -> None:
    integer = 10**5000
    for value in (integer, [-integer], {"k": integer}):
        assert "an integer of about 5,001 digits" in shown(value)


def test_ordinary_values_are_written_out() -> None:
    values = [12_345_678_901, -3, "text"]
    assert shown(values) == repr(values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31m", "\\x1b[31m"),
        ("a\r\nb\tc", "a b c"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("\u202efdp.exe", "\\u202efdp.exe"),  # Shown from right to left.
        ("\ud800", "\\ud800"),
        ("crème brûlée 😀", "crème brûlée 😀"),
    ],
)
def test_control_characters_are_written_out(text: str, expected: str) -> None:
    assert printable(text) == expected
