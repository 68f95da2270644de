from typing import Annotated
from typing import Any
from typing import Literal

import pytest
from pydantic import AfterValidator
from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import Field
from pydantic import FiniteFloat
from pydantic import StrictInt

from recsys.errors import FileError
from recsys.errors.shapes import check_shape


def _even(number: int) -> int:
    if number % 2:
        raise ValueError(f"`pair` must be even. Received: {number}")
    return number


class Part(BaseModel):
    loss: FiniteFloat | None = None
    share: Annotated[float, Field(ge=0, le=1)] = 0.5
    pairs: list[Annotated[StrictInt, AfterValidator(_even)]] = []


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["first", "second"]
    parts: dict[str, Part] = {}


def test_right_content_comes_back() -> None:
    content = {"kind": "first", "parts": {"a": {"loss": 1, "pairs": [2]}}}
    checked = check_shape(content, Whole, "file.json")
    assert checked.parts["a"].loss == 1.0
    assert checked.parts["a"].pairs == [2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "expected an object. Received: []"),
        ("text", "expected an object. Received: 'text'"),
        ({}, "expected a value at kind. Received: none"),
        (
            {"kind": "third"},
            "expected 'first' or 'second' at kind. Received: 'third'",
        ),
        (
            {"kind": "first", "part": {}},
            "expected one of the fields kind, parts (did you mean 'parts'?) at "
            "part. Received: {}",
        ),
        (
            {"kin": "first"},
            "expected one of the fields kind, parts (did you mean 'kind'?) at "
            "kin. Received: 'first'",
        ),
        (
            {"kind": "first", "parts": {"a b": [1]}},
            "expected an object at parts.a b. Received: [1]",
        ),
        (
            {"kind": "first", "parts": {"a": {"share": 2}}},
            "expected at most 1 at parts.a.share. Received: 2",
        ),
        (
            {"kind": "first", "parts": {"a": {"loss": float("nan")}}},
            "expected a finite number at parts.a.loss. Received: nan",
        ),
        (
            {"kind": "first", "parts": {"a": {"pairs": 2}}},
            "expected a list at parts.a.pairs. Received: 2",
        ),
        (
            {"kind": "first", "parts": {"a": {"pairs": [2, True]}}},
            "expected an integer at parts.a.pairs[1]. Received: True",
        ),
    ],
)
def test_first_wrong_field_is_named(content: Any, message: str) -> None:
    with pytest.raises(FileError) as caught:
        check_shape(content, Whole, "file.json")
    assert str(caught.value) == f"file.json: {message}"


def test_error_of_a_validator_is_passed_on() -> None:
    content = {"kind": "first", "parts": {"a": {"pairs": [3]}}}
    with pytest.raises(FileError) as caught:
        check_shape(content, Whole, "file.json", line=2)
    assert str(caught.value) == (
        "file.json, line 2, parts.a.pairs[0]: `pair` must be even. Received: 3"
    )


def test_line_is_named() -> None:
    with pytest.raises(FileError, match=r"^log.jsonl, line 3: expected an obj"):
        check_shape(0, Whole, "log.jsonl", line=3)


def test_control_characters_are_written_out() -> None:
    content = {"kind": "first", "parts": {"\x1b[31m": 1}}
    with pytest.raises(FileError, match=r"at parts\.\\x1b\[31m\. Received: 1"):
        check_shape(content, Whole, "file.json")
