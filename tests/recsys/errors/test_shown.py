import pytest

from recsys.errors import DataError
from recsys.errors.shown import did_you_mean
from recsys.errors.shown import listed
from recsys.errors.shown import printable
from recsys.errors.shown import shortened
from recsys.errors.shown import shown


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


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**6,
        ["x" * 10**6] * 10,
        [[[[["x" * 200] * 9] * 9] * 9] * 9] * 9,
        {f"{number}" * 200: number for number in range(10**5)},
        {"k": {"k": {"k": {"k": ["x" * 200] * 9}}}},
    ],
)
def test_what_is_shown_is_short(value: object) -> None:
    assert len(shown(value)) <= 300


def test_of_many_names_the_first_are_shown() -> None:
    value = dict.fromkeys("zyxwvu", 1)
    assert shown(value) == "{'w': 1, 'x': 1, 'y': 1, 'z': 1, ...}"
    assert shown({"b": 1, "a": 2}) == "{'a': 2, 'b': 1}"


@pytest.mark.parametrize("length", range(3, 12))
def test_shortened_text_has_its_ends(length: int) -> None:
    text = shortened("abcdefghij", length)
    assert len(text) == min(length, 10)
    start, dots, end = text.partition("...")
    assert "abcdefghij".startswith(start)
    assert not dots or "abcdefghij".endswith(end)


def test_the_first_of_many_names() -> None:
    names = [f"name {number}" for number in range(10**5)]
    assert listed(names).startswith("name 0, name 1, ")
    assert listed(names).endswith("name 19, ... (100,000 in all)")
    assert len(listed(["x" * 10**6] * 3)) < 700


def test_errors_do_not_repeat_a_file() -> None:
    text = "x" * 10**6
    error = DataError.at("a.csv", f"one of {text}", repr(text), column=text)
    assert len(str(error)) < 4000
    assert str(error).startswith("a.csv, column 'xx")
    assert str(error).endswith("xx'")
    assert len(str(DataError(text))) == 9000


def test_hints_for_long_names_among_many() -> None:
    names = [f"a name of some length {number}" for number in range(10**6)]
    assert did_you_mean("x" * 10**6, names) == ""
    assert "did you mean" in did_you_mean("a name of some length 7", names)
