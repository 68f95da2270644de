import json
from pathlib import Path

import pytest

from recsys.errors import FileError
from recsys.json_files import parse_json
from recsys.json_files import read_json


def refusal(tmp_path: Path, text: str) -> str:
    file = tmp_path / "a.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(FileError) as caught:
        read_json(file)
    return str(caught.value).removeprefix(str(tmp_path))


@pytest.mark.parametrize("bracket", ["[", '{"a":'])
def test_nested_too_deeply(tmp_path: Path, bracket: str) -> None:
    assert refusal(tmp_path, 200_000 * bracket) == (
        "/a.json: expected JSON. Received: one that is nested too deeply"
    )


def test_the_place_where_it_breaks_off(tmp_path: Path) -> None:
    assert refusal(tmp_path, '{\n  "k": 2,\n  "k') == (
        "/a.json, line 3: expected JSON. Received: '\"k' at column 3"
    )
    with pytest.raises(FileError, match=r"a\.jsonl, line 7: expected JSON"):
        parse_json("", "a.jsonl", first_line=7)


def test_an_integer_of_many_digits(tmp_path: Path) -> None:
    message = refusal(tmp_path, "[" + "9" * 5000 + "]")
    assert message.endswith("Received: an integer of thousands of digits")


def test_a_name_that_is_there_twice(tmp_path: Path) -> None:
    assert refusal(tmp_path, '{"a": {"k": 1, "n": 2, "k": 1}}') == (
        "/a.json: expected JSON with each name once. Received: 'k' twice"
    )


def test_half_a_character(tmp_path: Path) -> None:
    message = refusal(tmp_path, '["\\ud800"]')
    assert message.endswith("Received: bytes that are not UTF-8 text")
    assert parse_json(json.dumps("😀"), "a.json") == "😀"
