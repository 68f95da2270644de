"""Two values are one id if, and only if, their canonical texts are equal."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume
from hypothesis import given
from hypothesis import settings
from pandas.api.types import is_integer_dtype

from recsys.errors import DataError
from recsys.features.id_positions import id_positions
from recsys.features.id_values import as_ids
from recsys.features.id_values import unified_ids
from tests.recsys.features.id_columns import columns
from tests.recsys.features.id_columns import mixed
from tests.recsys.features.id_columns import text_of
from tests.recsys.features.id_columns import texts_of


def ids_of(values: Any, dtype: Any = None) -> list[Any]:
    ids = as_ids(pd.Series(values, dtype=dtype), "log.csv")
    return [None if pd.isna(one) else one for one in ids]


@pytest.mark.parametrize(
    ("values", "dtype", "ids"),
    [
        ([2**53 + 1, None], "UInt64", [2**53 + 1, None]),
        ([2**64 - 1, 5, None], "UInt64", [str(2**64 - 1), "5", None]),
        ([2**64 - 1, 5], "uint64", [str(2**64 - 1), "5"]),
        ([2**63 - 1, None], "uint64[pyarrow]", [2**63 - 1, None]),
        ([2**64 - 1, None], "uint64[pyarrow]", [str(2**64 - 1), None]),
        ([10**30, 5], object, [str(10**30), "5"]),
        ([2**53 + 1, float("nan")], object, [2**53 + 1, None]),
        ([2**53 + 1, 7.0, None], object, [2**53 + 1, 7, None]),
        ([Decimal(2**60 + 1), Decimal("7.0")], object, [2**60 + 1, 7]),
        ([2**53 + 1, "guest"], object, [str(2**53 + 1), "guest"]),
        (["7", "007", " 7", "7.0", ""], None, ["7", "007", " 7", "7.0", None]),
        ([-(2**63), 1], "int64", [str(-(2**63)), "1"]),
        ([1 - 2**63, 1], "int64", [1 - 2**63, 1]),
        ([2**24 - 1, None], "float32", [2**24 - 1, None]),
        ([2**53 - 1, None], "float64", [2**53 - 1, None]),
        ([7.0, None], "Sparse[float]", [7, None]),
        ([2**53 + 1, 0], "Sparse[int]", [2**53 + 1, 0]),
        ([], object, []),
    ],
)
def test_ids_of_containers(values: Any, dtype: Any, ids: list[Any]) -> None:
    assert ids_of(values, dtype) == ids


def test_dictionaries_and_categories_are_their_values() -> None:
    kind = pd.ArrowDtype(pa.dictionary(pa.int32(), pa.int64()))
    assert ids_of([2**53 + 1, None], kind) == [2**53 + 1, None]
    assert ids_of([2**53 + 1, None], "category") == [2**53 + 1, None]


@given(columns)
@settings(max_examples=200)
def test_an_id_is_its_text(column: "pd.Series[Any]") -> None:
    ids = as_ids(column, "log.csv")
    assert texts_of(ids) == texts_of(column)
    assert ids.index.equals(column.index)
    again = as_ids(ids, "log.csv")
    pd.testing.assert_series_equal(again, ids)


@given(mixed)
def test_neighbours_change_nothing(column: "pd.Series[Any]") -> None:
    ids = as_ids(column, "log.csv")
    for row in range(len(column)):
        alone = as_ids(column.iloc[[row]], "log.csv")
        assert texts_of(alone) == texts_of(ids.iloc[[row]])


@given(columns)
def test_the_form_is_integers_where_all_are_and_fit(
    column: "pd.Series[Any]",
) -> None:
    there = [one for one in column.astype(object) if text_of(one) is not None]
    assume(there)
    fit = [not isinstance(one, str) and abs(int(one)) < 2**63 for one in there]
    assert is_integer_dtype(as_ids(column, "log.csv")) == all(fit)


@given(columns, columns)
@settings(max_examples=200)
def test_ids_are_found_by_their_texts(
    column: "pd.Series[Any]", others: "pd.Series[Any]"
) -> None:
    known = pd.Index(as_ids(others, "log.csv").dropna().unique())
    places = {text: place for place, text in enumerate(map(str, known))}
    expected = [places.get(text or "", -1) for text in texts_of(column)]
    assert id_positions(column, known).tolist() == expected


@given(columns, columns)
def test_columns_in_one_form_keep_their_texts(
    one: "pd.Series[Any]", other: "pd.Series[Any]"
) -> None:
    given_ids = [as_ids(one, "a"), as_ids(other, "b")]
    unified = unified_ids(given_ids)
    assert len({is_integer_dtype(each) for each in unified}) == 1
    for before, after in zip(given_ids, unified, strict=True):
        assert texts_of(after) == texts_of(before)


@pytest.mark.parametrize(
    ("value", "dtype", "shown"),
    [
        (2.0**53, None, "9007199254740992.0"),
        (2.0**24, "float32", "16777216.0"),
        (7.5, None, "7.5"),
        (float("inf"), None, "inf"),
        (float(2**53), object, "9007199254740992.0"),
        (np.float32(2**24), object, "16777216.0"),
        (Decimal("7.5"), object, "Decimal('7.5')"),
        (Decimal("Infinity"), object, "Decimal('Infinity')"),
        (Decimal("1E+999999"), object, "Decimal('1E+999999')"),
        (True, None, "True"),
        (np.True_, object, "True"),
        (b"7", object, "b'7'"),
        (7 + 0j, object, "(7+0j)"),
        ([7], object, "[7]"),
        (np.timedelta64(7, "D"), object, "datetime.timedelta(days=7)"),
    ],
)
def test_what_is_no_id(value: Any, dtype: Any, shown: str) -> None:
    column = pd.Series([value], dtype=dtype, name="user")
    with pytest.raises(DataError) as caught:
        as_ids(column, "log.csv")
    assert str(caught.value) == (
        "log.csv, column 'user', data row 1 (counted from 1): expected an "
        f"integer or a string. Received: {shown}"
    )


def test_an_integer_that_cannot_be_written_out() -> None:
    column = pd.Series([1, 10**4300], name="user")
    with pytest.raises(DataError) as caught:
        as_ids(column, "log.csv")
    assert str(caught.value) == (
        "log.csv, column 'user', data row 2 (counted from 1): expected an "
        "integer of at most 4,300 digits. Received: an integer of about 4,301 "
        "digits"
    )
    assert ids_of([10**4299]) == ["1" + "0" * 4299]


def test_texts_that_are_all_empty_are_missing_ids() -> None:
    for kind in (object, "str", "category"):
        ids = as_ids(pd.Series(["", None, ""], dtype=kind), "log.csv")
        assert ids.dtype == "Int64"
        assert ids.isna().all()
