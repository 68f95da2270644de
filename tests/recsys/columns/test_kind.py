import pytest

from recsys.columns.kind import Declaration
from recsys.columns.kind import Kind
from recsys.columns.kind import declarations
from recsys.columns.kind import declared
from recsys.errors import DataError


class Tags(Kind):
    """A kind with options."""

    type = "tags"
    pooling: str = "mean"
    length: int | None = None


KINDS = {"tags": Tags}


def refusal(declaration: Declaration) -> str:
    with pytest.raises(DataError) as caught:
        declared(declaration, KINDS, "'features'", "genres")
    return str(caught.value)


def test_a_name_stands_for_the_defaults() -> None:
    assert declared("tags", KINDS, "'features'", "genres") == Tags()


def test_an_object_has_options() -> None:
    object = {"type": "tags", "length": 5}
    assert declared(object, KINDS, "'features'", "genres") == Tags(length=5)


def test_what_is_declared_already_stays() -> None:
    kind = Tags(length=5)
    assert declared(kind, KINDS, "'features'", "genres") is kind


def test_only_what_is_no_default_is_said() -> None:
    assert declarations({"a": Tags(), "b": Tags(length=5)}) == {
        "a": "tags",
        "b": {"type": "tags", "length": 5},
    }


def test_an_object_without_a_type() -> None:
    assert refusal({"length": 5}) == (
        "'features', column 'genres': expected one of the types ['tags']. "
        "Received: {'length': 5}"
    )


def test_an_unknown_option() -> None:
    assert refusal({"type": "tags", "lenght": 5}) == (
        "'features', column 'genres': expected one of the fields pooling, "
        "length (did you mean 'length'?) at lenght. Received: 5"
    )


@pytest.mark.parametrize("length", ["5", 5.0, True])
def test_an_option_of_another_type(length: object) -> None:
    assert refusal({"type": "tags", "length": length}) == (
        "'features', column 'genres': expected an integer at length. "
        f"Received: {length!r}"
    )
