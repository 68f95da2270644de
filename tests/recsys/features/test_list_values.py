"""Ids in lists are their texts, whatever holds the lists."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.data import DataError
from recsys.features import Ids
from recsys.features import Sequence
from recsys.features import Vector
from recsys.features.list_values import values_of
from tests.recsys.features.id_columns import EXACT_FLOATS
from tests.recsys.features.id_columns import OF_INT64
from tests.recsys.features.id_columns import OF_UINT64
from tests.recsys.features.id_columns import text_of
from tests.recsys.features.id_columns import texts
from tests.recsys.features.id_columns import values


def array_of(given_values: list[Any], dtype: Any) -> Any:
    return st.lists(st.sampled_from(given_values), max_size=4).map(
        lambda row: np.array(row, dtype)
    )


def arrow_of(values: Any, kind: Any) -> Any:
    rows = st.lists(st.none() | st.lists(values | st.none(), max_size=4))
    return rows.map(
        lambda given_rows: pd.Series(given_rows, dtype=pd.ArrowDtype(kind))
    )


row = st.one_of(
    st.lists(values, max_size=4),
    st.lists(values, max_size=4).map(tuple),
    array_of(OF_INT64, np.int64),
    array_of(OF_UINT64, np.uint64),
    array_of(EXACT_FLOATS, np.float64),
    st.none(),
)
of_rows = st.lists(row, max_size=5).map(
    lambda rows: pd.Series(rows, dtype=object)
)
columns = st.one_of(
    of_rows,
    arrow_of(st.sampled_from(OF_INT64), pa.list_(pa.int64())),
    arrow_of(st.sampled_from(OF_INT64), pa.large_list(pa.int64())),
    arrow_of(st.sampled_from(OF_UINT64), pa.list_(pa.uint64())),
    arrow_of(texts, pa.list_(pa.string())),
)


def texts_of_rows(column: "pd.Series[Any]") -> list[list[str]]:
    if isinstance(column.dtype, pd.ArrowDtype):
        rows = column.array.__arrow_array__().to_pylist()
    else:
        rows = [[] if one is None else list(one) for one in column]
    return [
        [text for text in map(text_of, one or []) if text is not None]
        for one in rows
    ]


@given(columns)
@settings(max_examples=200)
def test_an_id_in_a_list_is_its_text(column: "pd.Series[Any]") -> None:
    for kind in (Ids(), Sequence()):
        checked = kind.check(column, "log.csv")
        assert texts_of_rows(checked) == texts_of_rows(column)
        again = kind.check(checked, "log.csv")
        assert texts_of_rows(again) == texts_of_rows(column)


@given(columns, columns)
def test_lists_of_several_parts_have_one_form(
    one: "pd.Series[Any]", other: "pd.Series[Any]"
) -> None:
    kind = Ids()
    parts = [kind.check(column, "log.csv") for column in (one, other)]
    joined = pd.concat(kind.unified(parts), ignore_index=True)
    assert texts_of_rows(joined) == [*texts_of_rows(one), *texts_of_rows(other)]
    ids = values_of(joined)
    assert len({isinstance(id, str) for id in ids}) < 2


@pytest.mark.parametrize(
    ("rows", "ids"),
    [
        (
            [np.array([2**53 + 1], np.uint64), np.array([2**53])],
            [[2**53 + 1], [2**53]],
        ),
        ([[2**53 + 1, None], [2**53]], [[2**53 + 1], [2**53]]),
        ([[2**64 - 1], [5]], [[str(2**64 - 1)], ["5"]]),
        ([[2**53 + 1, "guest"], [7.0]], [[str(2**53 + 1), "guest"], ["7"]]),
        (["9007199254740993|x", "007"], [["9007199254740993", "x"], ["007"]]),
    ],
)
def test_rows_of_several_types(rows: Any, ids: list[Any]) -> None:
    checked = Ids().check(pd.Series(rows, dtype=object), "log.csv")
    assert [list(one) for one in checked] == ids


@pytest.mark.parametrize("as_row", [list, np.array])
def test_a_rounded_integer_in_a_list(as_row: Callable[[Any], Any]) -> None:
    rows = pd.Series([[1], as_row([2.0**53])], name="tags")
    with pytest.raises(DataError) as caught:
        Ids().check(rows, "log.csv")
    assert str(caught.value) == (
        "log.csv, column 'tags', data row 2 (counted from 1): expected an "
        "integer or a string. Received: 9007199254740992.0"
    )


def test_vectors_of_arrows_lists_and_of_several_types() -> None:
    kind = pd.ArrowDtype(pa.list_(pa.float32()))
    column = Vector(size=2).check(pd.Series([[1, 0.5], None], dtype=kind), "")
    assert column[0].tolist() == [1, 0.5]
    rows = [np.array([1, 2]), np.array([0.5, 1], np.float32)]
    column = Vector(size=2).check(pd.Series(rows), "")
    assert [one.tolist() for one in column] == [[1, 2], [0.5, 1]]
