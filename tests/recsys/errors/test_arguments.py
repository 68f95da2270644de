from collections.abc import Sequence
from typing import Any

import pytest

from recsys.errors.arguments import Repeated
from recsys.errors.arguments import typed_arguments


@pytest.mark.parametrize(
    ("text", "hint", "expected"),
    [
        ("3", int, 3),
        ("3", float, 3.0),
        ("0.5", int | float, 0.5),
        ("none", float | None, None),
        ("None", str | None, None),
        ("True", bool, True),
        ("3", str, "3"),
        ("a b,c", list[str], ["a b", "c"]),
        ("1,2", Sequence[int], [1, 2]),
        (0.5, int, 0.5),
        ("a,b", str | Sequence[str], ["a", "b"]),
        (Repeated(("a", "b,c")), list[str], ["a", "b", "c"]),
        (Repeated(("1", "2")), Sequence[int], [1, 2]),
    ],
)
def test_a_text_is_read_as_its_argument(
    text: Any, hint: Any, expected: Any
) -> None:
    (value,) = typed_arguments("`x`", {"a": text}, {"a": hint}).values()
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "hint", "kind"),
    [
        ("three", int, "int"),
        ("0.5", int, "int"),
        ("yes", bool, "bool"),
        ("1,b", list[int], "int"),
    ],
)
def test_a_text_of_another_type(text: str, hint: Any, kind: str) -> None:
    with pytest.raises(ValueError, match=rf"`x`: a must be of type {kind}\."):
        typed_arguments("`x`", {"a": text}, {"a": hint})


def test_an_unknown_name() -> None:
    with pytest.raises(ValueError, match=r"`x` must be among a, b\..*: 'c'$"):
        typed_arguments("`x`", {"c": 1}, {"a": int, "b": int})


@pytest.mark.parametrize("hint", [str, str | None, float, bool, Any])
def test_what_is_no_list_is_given_once(hint: Any) -> None:
    with pytest.raises(ValueError, match="given once") as caught:
        typed_arguments("`x`", {"a": Repeated(("1", "2"))}, {"a": hint})
    assert str(caught.value) == (
        "`x`: a must be given once. Received: a=1 and a=2"
    )


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(ValueError, match="must be among") as caught:
        typed_arguments("`x`", {"colums": "a"}, {"scale": int, "columns": str})
    assert str(caught.value) == (
        "`x` must be among scale, columns (did you mean 'columns'?). "
        "Received: 'colums'"
    )
