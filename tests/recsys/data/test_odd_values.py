"""Values of a DataFrame that no file has: errors with column and row."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.columns.kind import declared
from recsys.data import DataError
from recsys.data import Schema
from recsys.data import dataset_from_table
from recsys.data.columns import parse
from recsys.data.times import parse_times
from recsys.features import FEATURES
from recsys.features import Image
from recsys.tasks import TASKS

HALF = "a\ud83d"
NUMBERS: dict[str, Any] = {
    "number": "number",
    "bucket": "bucket",
    "binary": "binary",
    "multiclass": "multiclass",
    "regression": "regression",
}
LISTS: dict[str, Any] = {
    "ids": "ids",
    "weighted": {"type": "ids", "weighted": True},
    "sequence": "sequence",
    "vector": {"type": "vector", "size": 2},
}
ALL = {"id": "id", "hash": {"type": "hash", "buckets": 3}} | NUMBERS | LISTS


def column(value: Any) -> "pd.Series[Any]":
    """Nothing, nothing, and a value."""
    values = np.empty(3, object)
    values[2] = value
    return pd.Series(values, dtype=object, name="x")


def error(declaration: Any, value: Any) -> str:
    kind = declared(declaration, {**FEATURES, **TASKS}, "'features'", "x")
    with pytest.raises(DataError) as caught:
        parse(pd.DataFrame({"x": column(value)}), {"x": kind}, "rows")
    message = str(caught.value)
    start = "rows, column 'x', data row 3 (counted from 1): expected "
    assert message.startswith(start)
    return message.removeprefix(start)


def test_all_kinds_are_tried() -> None:
    kinds = {"id", "hash", *NUMBERS, *LISTS} - {"weighted"}
    assert kinds == {*FEATURES, *TASKS} - {Image.type}


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("value", "received"),
    [
        (1 + 2j, "(1+2j)"),
        (np.complex64(1), "(1+0j)"),
        (Fraction(1, 3), "Fraction(1, 3)"),
        (b"7", "b'7'"),
        (bytearray(b"7"), "bytearray(b'7')"),
        (HALF, r"'a\ud83d'"),
        ({1: 2}, "{1: 2}"),
        (pd.Series([1, 2]), "0 1 1 2 dtype: int64"),
        (np.zeros((1, 2), int), "array([[0, 0]])"),
    ],
)
def test_a_value_that_no_kind_has(kind: str, value: Any, received: str) -> None:
    assert error(ALL[kind], value).endswith(f". Received: {received}")


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("integer", [10**400, -(10**400), 2**1024])
def test_an_integer_beyond_all_floats(kind: str, integer: int) -> None:
    message = error(NUMBERS[kind], integer)
    digits = 309 if integer == 2**1024 else 401
    assert message.endswith(f"Received: an integer of about {digits} digits")


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize(
    ("value", "received"),
    [
        (HALF, r"'a\ud83d'"),
        (b"7", "b'7'"),
        (1 + 2j, "(1+2j)"),
        ([1, 2], "[1, 2]"),
        (pd.Series([1, 2]), "0 1 1 2 dtype: int64"),
    ],
)
def test_a_value_in_a_list_that_no_kind_has(
    kind: str, value: Any, received: str
) -> None:
    message = error(LISTS[kind], [value, value])
    assert message.endswith(f". Received: {received}")


def test_an_array_of_half_characters() -> None:
    message = error("ids", np.array(["b", HALF]))
    assert message == r"valid Unicode text. Received: 'a\ud83d'"


def test_columns_of_complex_numbers() -> None:
    rows = pd.DataFrame({"x": [1 + 2j, np.nan], "click": [0, 1]})
    with pytest.raises(DataError, match=r"'x', data row 1 .*\(1\+2j\)"):
        parse(
            rows, Schema("s", {"x": "number"}, {"click": "binary"}).columns, 1
        )


@given(
    st.one_of(
        st.integers(-(10**38), 10**38),
        st.floats(-1e38, 1e38),
        st.decimals(-(10**38), 10**38, allow_nan=False),
        st.booleans(),
    )
)
def test_real_numbers_of_any_type_are_numbers(number: Any) -> None:
    schema = Schema("s", {"x": "number"}, {"click": "binary"})
    rows = pd.DataFrame({"x": column(number), "click": [0, 1, 0]})
    found = parse(rows, schema.columns, "rows")["x"].iloc[2]
    assert found == pytest.approx(float(number))


def test_decimals_and_texts_of_numbers_stay_numbers() -> None:
    kind = declared("number", FEATURES, "'features'", "x")
    values = pd.Series([Decimal("1.5"), "2.5", "NA", np.float32(3), True, 4])
    assert kind.check(values, "rows").fillna(-1).tolist() == [
        *(1.5, 2.5, -1, 3, 1, 4),
    ]


@pytest.mark.parametrize(
    ("value", "received"),
    [
        (10**400, "an integer of about 401 digits"),
        ("9" * 5000, f"'{'9' * 47}...{'9' * 48}'"),
        (1 + 2j, "(1+2j)"),
        (HALF, r"'a\ud83d'"),
    ],
)
def test_times_that_are_none(value: Any, received: str) -> None:
    values = pd.Series([value, value], dtype=object, name="day")
    with pytest.raises(DataError, match="column 'day', data row 1 ") as caught:
        parse_times(values, "rows")
    assert str(caught.value).endswith(f"Received: {received}")


@pytest.mark.parametrize(
    "changes",
    [
        {"name": HALF},
        {"features": {HALF: "id"}},
        {"tasks": {HALF: "binary"}},
        {"group": HALF},
    ],
)
def test_a_name_with_half_a_character(changes: dict[str, Any]) -> None:
    given = {"name": "s", "features": {"x": "id"}, "tasks": {"y": "binary"}}
    with pytest.raises(DataError) as caught:
        Schema(**given | changes)
    assert "expected valid Unicode text. Received: " in str(caught.value)


def test_a_table_is_refused_before_anything_is_written() -> None:
    rows = pd.DataFrame({"x": ["a"] * 20, "click": [0, 1] * 10}, dtype=object)
    rows.loc[11, "x"] = HALF
    schema = Schema("s", {"x": "id"}, {"click": "binary"})
    with pytest.raises(DataError, match="column 'x', data row 12"):
        dataset_from_table(rows, schema)
