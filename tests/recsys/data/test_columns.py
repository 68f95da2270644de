from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pandas.testing import assert_series_equal

from recsys.data import DataError
from recsys.data.columns import parse
from recsys.features import FEATURES
from recsys.features import Id
from recsys.features import Number
from recsys.tasks import TASKS

KINDS = {**FEATURES, **TASKS}


def parsed(values: Any, kind: str, dtype: Any = None) -> "pd.Series[Any]":
    frame = pd.DataFrame({"x": pd.Series(values, dtype=dtype)})
    return parse(frame, {"x": KINDS[kind]()}, "a.csv")["x"]


def refusal(values: Any, kind: str, dtype: Any = None) -> str:
    with pytest.raises(DataError) as caught:
        parsed(values, kind, dtype)
    return str(caught.value)


def test_columns_come_in_the_order_asked_for_without_the_others() -> None:
    frame = pd.DataFrame({"a": [1], "b": [2], "c": [3]}, index=[7])
    result = parse(frame, {"c": Id(), "a": Number()}, "a.csv")
    assert list(result.columns) == ["c", "a"]
    assert list(result.index) == [0]


def test_missing_column() -> None:
    with pytest.raises(DataError) as caught:
        parse(pd.DataFrame({"a": [1]}), {"user": Id()}, "a.csv")
    assert str(caught.value) == (
        "a.csv: expected a column 'user'. Received: the columns ['a']"
    )


def test_integer_ids_stay_integers() -> None:
    assert parsed([3, 1], "id", "int32").dtype == "int64"


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([3, None], "Int64"),
        ([3, None], "float64"),
        ([3, None], object),
        ([3, None], "category"),
    ],
)
def test_integer_ids_stay_integers_beside_missing_ones(
    values: list[Any], dtype: Any
) -> None:
    expected = pd.Series([3, None], dtype="Int64", name="x")
    assert_series_equal(parsed(values, "id", dtype), expected)


def test_string_ids_keep_every_character() -> None:
    ids = parsed(["007", " a", "NA", "7"], "id")
    assert ids.tolist() == ["007", " a", "NA", "7"]


def test_missing_string_ids() -> None:
    assert parsed(["a", None, ""], "id").isna().tolist() == [False, True, True]


def test_ids_without_any_value() -> None:
    assert parsed([None, None], "id", object).isna().all()


def test_integers_mixed_with_strings_become_strings() -> None:
    ids = parsed([7, "x", None], "id", object)
    assert ids[:2].tolist() == ["7", "x"]
    assert ids.isna().tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.5, "1.5"), (1e300, "1e+300"), (float("inf"), "inf"), (b"a", "b'a'")],
)
def test_what_is_no_id(value: Any, shown: str) -> None:
    assert refusal([1, value], "id") == (
        "a.csv, column 'x', data row 2 (counted from 1): expected an integer "
        f"or a string. Received: {shown}"
    )


@pytest.mark.parametrize("kind", ["id", "number", "binary"])
@pytest.mark.parametrize("value", [np.ones(2), pd.Timestamp(0), b"x"])
def test_values_of_other_types(kind: str, value: Any) -> None:
    message = refusal([None, value], kind, object)
    assert message.startswith("a.csv, column 'x', data row 2 (counted from 1)")


def test_truth_values_are_no_ids() -> None:
    assert refusal([True, False], "id").endswith("Received: True")


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([2**64 - 1, None, 5], pa.uint64(), [str(2**64 - 1), "5"]),
        ([2**53 + 1, None, 5], pa.int64(), [str(2**53 + 1), "5"]),
        ([Decimal(2**53 + 1), None], pa.decimal128(20, 0), [str(2**53 + 1)]),
        (["007", None, "7.0"], pa.string(), ["007", "7.0"]),
    ],
)
def test_a_table_of_arrow_columns(
    values: list[Any], kind: Any, expected: list[str]
) -> None:
    for column in (
        pd.Series(values, dtype=pd.ArrowDtype(kind)),
        pd.Series(values, dtype=pd.ArrowDtype(kind)).astype("category"),
    ):
        ids = parsed(column, "id")
        assert [str(id) for id in ids if not pd.isna(id)] == expected
        numbers = parsed(column, "number").dropna()
        assert numbers.tolist() == [float(text) for text in expected]


def test_lists_of_arrow_columns() -> None:
    lists = [[2**53 + 1, None], None, [5]]
    column = pd.Series(lists, dtype=pd.ArrowDtype(pa.list_(pa.int64())))
    ids = [[*map(str, row)] for row in parsed(column, "ids")]
    assert ids == [[str(2**53 + 1)], [], ["5"]]


@pytest.mark.parametrize("more", [[], ["NA"], ["NA", " 7 "]])
def test_a_number_is_read_alike_whatever_texts_are_beside_it(
    more: list[str],
) -> None:
    texts = ["0.1234567890123456789", "1e22", "250.00", "+7", "007", "1e-320"]
    numbers = parsed([*texts, *more], "number")
    assert numbers[:6].tolist() == [float(text) for text in texts]


@pytest.mark.parametrize("kind", ["number", "binary"])
@pytest.mark.parametrize("more", [[], ["1"], ["NA"], [None, "0.0"]])
def test_texts_of_truth_values_are_1_and_0(
    kind: str, more: list[str | None]
) -> None:
    numbers = parsed(["true", "False", *more], kind)
    assert numbers[:2].tolist() == [1.0, 0.0]
    assert len(numbers) == 2 + len(more)


@pytest.mark.parametrize("kind", ["number", "regression"])
def test_numbers_are_float64_with_nan_where_missing(kind: str) -> None:
    texts = ["1", " 2.5 ", "", "NA", "nan", "null", None]
    expected = [1, 2.5, *[np.nan] * 5]
    for values in (texts, [1, 2.5, *[None] * 5]):
        numbers = parsed(values, kind)
        assert numbers.dtype == "float64"
        np.testing.assert_array_equal(numbers, expected)


def test_a_column_without_any_number() -> None:
    np.testing.assert_array_equal(parsed([None], "number", object), [np.nan])


@pytest.mark.parametrize("value", ["four", "4,5", "1e99", "inf", "-Infinity"])
def test_text_that_is_no_finite_number(value: str) -> None:
    assert refusal(["1", "2", value, "five"], "regression") == (
        "a.csv, column 'x', data row 3 (counted from 1): expected a finite "
        f"number. Received: {value!r}"
    )


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 1e39])
def test_numbers_beyond_float32(value: float) -> None:
    assert "data row 1 " in refusal([value, 1.0], "number")


def test_long_values_are_shortened() -> None:
    assert len(refusal(["x" * 1000], "number")) < 250
