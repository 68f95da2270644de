from typing import Annotated
from typing import Any

import pytest
from pydantic import ConfigDict
from pydantic import Field
from pydantic.dataclasses import dataclass

from recsys.errors.clear_errors import with_clear_errors


@with_clear_errors
@dataclass(config=ConfigDict(strict=True, extra="forbid"))
class Interval:
    low: float
    high: Annotated[float, Field(lt=100)] = 1.0

    def __post_init__(self) -> None:
        if self.high < self.low:
            raise ValueError(f"the interval is empty: {self}")


def test_right_arguments() -> None:
    interval = Interval(0, high=2.0)
    assert (interval.low, interval.high) == (0.0, 2.0)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({}, ValueError, "`low` must be given. Received: none"),
        (
            {"low": "0"},
            TypeError,
            "`low` must be a number. Received: low='0'",
        ),
        (
            {"low": 0.0, "high": 1e9},
            ValueError,
            "`high` must be below 100. Received: high=1000000000.0",
        ),
        (
            {"low": 2.0},
            ValueError,
            "the interval is empty: Interval(low=2.0, high=1.0)",
        ),
        # Rather than that `low` is missing.
        (
            {"lo": 0.0},
            ValueError,
            "expected one of the fields low, high (did you mean 'low'?). "
            "Received: 'lo'",
        ),
    ],
)
def test_first_wrong_argument_is_named(
    arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        Interval(**arguments)
    assert caught.type is kind
    assert str(caught.value) == message


def test_an_argument_that_is_given_by_its_place_is_named() -> None:
    with pytest.raises(TypeError, match=r"^`high` must be a number\. Received"):
        Interval(0.0, "1")  # type: ignore[arg-type]


def test_too_many_arguments() -> None:
    with pytest.raises(TypeError, match="expected at most 2 arguments"):
        Interval(0.0, 1.0, 2.0)  # type: ignore[call-arg]


def test_a_long_name_of_a_field_is_shortened() -> None:
    fields: dict[str, Any] = {"n" * 1_000_000: 1}
    with pytest.raises(ValueError, match=r"Received: 'nnn") as raised:
        Interval(0, **fields)
    assert len(str(raised.value)) < 500
