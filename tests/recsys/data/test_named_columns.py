import pytest

from recsys.data import DataError
from recsys.data.named_columns import named_columns

COLUMNS = ["click", "101", "109_14", "D508", "wage per hour", "a[1]"]


def found(**wanted: list[str]) -> dict[str, str]:
    return named_columns(COLUMNS, wanted, "log.csv")


def test_names_and_patterns_in_the_order_of_the_table() -> None:
    wanted = {"binary": ["click"], "number": ["D*", "wage*"], "id": ["1??*"]}
    assert found(**wanted) == {
        "click": "binary",
        "101": "id",
        "109_14": "id",
        "D508": "number",
        "wage per hour": "number",
    }


def test_a_name_goes_before_a_pattern() -> None:
    types = found(id=["*"], number=["D508"], binary=["click"])
    assert types == {
        **dict.fromkeys(COLUMNS, "id"),
        "D508": "number",
        "click": "binary",
    }


def test_a_name_that_looks_like_a_pattern() -> None:
    assert found(id=["a[1]"]) == {"a[1]": "id"}


def test_a_column_may_be_told_twice_alike() -> None:
    assert found(id=["101", "101", "10*"]) == {"101": "id", "109_14": "id"}


@pytest.mark.parametrize("name", ["user", "x*", "CLICK"])
def test_nothing_of_that_name(name: str) -> None:
    with pytest.raises(DataError) as caught:
        found(id=["101", name])
    assert str(caught.value) == (
        f"log.csv: expected a column {name!r}. Received: the columns {COLUMNS}"
    )


@pytest.mark.parametrize("names", [["101"], ["10*"]])
def test_two_types(names: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        found(id=names, number=names)
    assert str(caught.value) == (
        "log.csv, column '101': expected one type. Received: id and number"
    )
