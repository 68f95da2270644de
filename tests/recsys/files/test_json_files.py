import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.errors import FileError
from recsys.files.json_files import AT_ONCE
from recsys.files.json_files import STEPWISE
from recsys.files.json_files import parse_json
from recsys.files.json_files import read_json


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


def named_twice(count: int) -> str:
    names = [f"{number:x}" for number in range(count)]
    return json.dumps(dict.fromkeys(names, 0))[:-1] + f', "{names[-1]}": 0}}'


def test_a_name_twice_among_many_takes_one_pass(tmp_path: Path) -> None:
    """Pair by pair, 100,000 names would take minutes."""
    start = time.process_time()
    message = refusal(tmp_path, named_twice(100_000))
    assert message.endswith("Received: '1869f' twice")
    assert time.process_time() - start < 5


def test_a_long_name_that_is_there_twice_is_shortened(tmp_path: Path) -> None:
    name = "n" * 1_000_000
    message = refusal(tmp_path, f'{{"{name}": 1, "{name}": 2}}')
    assert message.endswith("nnn' twice")
    assert len(message) < 500


@pytest.mark.parametrize(
    ("text", "is_whole"),
    [
        (r"\ud83d\ude00", True),
        (r"\uD83D\uDE00 \u00e9 \\ud800", True),
        (r"\\\ud800", False),
        (r"\ude00\ud83d", False),
        (r"\ud83d\ud83d\ude00", False),
        (r"\ud83d \ude00", False),
    ],
)
def test_halves_of_characters(text: str, is_whole: bool) -> None:
    if is_whole:
        assert parse_json(f'"{text}"', "a.json") == json.loads(f'"{text}"')
    else:
        with pytest.raises(FileError, match="not UTF-8"):
            parse_json(f'"{text}"', "a.json")


@given(
    st.text('[]{},:"\\u0dDef81.-e tn', max_size=12)
    | st.recursive(
        st.none() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda parts: (
            st.lists(parts, max_size=3)
            | st.dictionaries(st.text(max_size=3), parts)
        ),
    ).map(json.dumps)
)
def test_both_decoders_read_the_same(text: str) -> None:
    def outcome(decoder: json.JSONDecoder) -> Any:
        try:
            return parse_json(text, "a.json", decoder=decoder)
        except FileError as error:
            return str(error)

    assert repr(outcome(STEPWISE)) == repr(outcome(AT_ONCE))


def test_the_stepwise_decoder_lets_others_run() -> None:
    text = f"[{'1,' * 200_000}1]"
    steps = 0
    end = threading.Event()

    def count() -> None:
        nonlocal steps
        while not end.wait(0.001):
            steps += 1

    thread = threading.Thread(target=count)
    thread.start()
    assert sum(parse_json(text, "a.json", decoder=STEPWISE)) == 200_001
    end.set()
    thread.join()
    assert steps > 3
