from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.data.formats.exact_values import to_series
from recsys.features.list_values import is_packed

BIG = 2**53 + 1
GREATEST = 2**64 - 1
INT = pa.int64()


def values(column: Any, *, pack: bool = False) -> list[Any]:
    """The values, lists of Python where there are lists, missing ones None."""
    return [
        [*value]
        if isinstance(value, list | np.ndarray)
        else None
        if pd.isna(value)
        else value
        for value in to_series(column, pack)
    ]


@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        ([BIG, None], INT, [BIG, None]),
        ([7, None], pa.int8(), [7, None]),
        ([2**63 - 1, None], pa.uint64(), [2**63 - 1, None]),
        ([GREATEST, None, 5], pa.uint64(), [str(GREATEST), None, "5"]),
        ([Decimal(BIG), None], pa.decimal128(20, 0), [BIG, None]),
        ([Decimal(BIG)], pa.decimal128(38, 4), [BIG]),
        ([Decimal(7000)], pa.decimal128(5, -3), [7000]),
        ([Decimal(7)], pa.decimal32(5, 0), [7]),
        ([Decimal(7)], pa.decimal64(5, 0), [7]),
        ([Decimal(-(10**37)), None], pa.decimal128(38, 0),
         [str(-(10**37)), None]),
        ([Decimal(10**70)], pa.decimal256(76, 2), [str(10**70)]),
        ([Decimal("0.10"), None, Decimal(5)], pa.decimal128(5, 2),
         [0.1, None, 5.0]),
        ([BIG, None, 5], pa.dictionary(pa.int8(), INT), [BIG, None, 5]),
        (["007", None], pa.dictionary(pa.int8(), pa.string()), ["007", None]),
        (["7.0", None], pa.string_view(), ["7.0", None]),
        (["7.0", None], pa.large_string(), ["7.0", None]),
        ([True, None], pa.bool_(), [True, None]),
        ([[BIG, None], None, []], pa.list_(INT), [[BIG, None], None, []]),
        ([[BIG], [5]], pa.large_list(INT), [[BIG], [5]]),
        ([[GREATEST], [5, None]], pa.list_(pa.uint64()),
         [[str(GREATEST)], ["5", None]]),
        ([[Decimal(BIG), None]], pa.list_(pa.decimal128(20, 0)),
         [[BIG, None]]),
        ([[BIG, 2], None], pa.list_(INT, 2), [[BIG, 2], None]),
        ([[BIG, None], None], pa.list_view(INT), [[BIG, None], None]),
        ([["a", None]], pa.list_(pa.string_view()), [["a", None]]),
    ],
)  # fmt: skip
def test_no_value_becomes_another(
    given: list[Any], kind: Any, expected: list[Any]
) -> None:
    if pa.types.is_dictionary(kind):
        array = pa.array(given, kind.value_type).dictionary_encode()
    else:
        array = pa.array(given, kind)
    for pack in (False, True):
        received = values(pa.chunked_array([array]), pack=pack)
        if pack:  # Where a missing list is an empty one.
            received = [one or None for one in received]
            expected = [one or None for one in expected]
        assert received == expected


def test_a_dictionary_in_lists_is_decoded() -> None:
    texts = pa.array(["007", None, "7"]).dictionary_encode()
    lists = pa.ListArray.from_arrays([0, 1, 3], texts)
    assert values(pa.chunked_array([lists])) == [["007"], [None, "7"]]


@pytest.mark.parametrize("kind", [pa.uint8(), pa.decimal128(20, 0), INT])
def test_lists_of_integers_of_any_kind_are_packed(kind: Any) -> None:
    for lists in (pa.list_(kind), pa.large_list(kind), pa.list_(kind, 2)):
        column = pa.chunked_array([pa.array([[7, 8], None], lists)])
        assert is_packed(to_series(column, pack=True))


@given(
    st.lists(st.lists(st.none() | st.integers(-(2**63), 2**64 - 1)) | st.none())
)
def test_lists_keep_every_integer(lists: list[Any]) -> None:
    large = any(one >= 2**63 for row in lists if row for one in row if one)
    kind = pa.decimal128(20, 0) if large else INT
    rows = [row and [v if v is None else Decimal(v) for v in row]
            for row in lists] if large else lists  # fmt: skip
    for column in (pa.array(rows, pa.list_(kind)),) * 2:
        read = values(pa.chunked_array([column, column[1:]]))
        texts = [row and [str(v) for v in row if v is not None] for row in read]
        expected = [
            row and [str(v) for v in row if v is not None] for row in lists
        ]
        assert texts == expected + expected[1:]


@given(st.decimals("-1e9", "1e9", places=3), st.integers(0, 1))
def test_a_decimal_is_the_nearest_float(number: Decimal, more: int) -> None:
    column = pa.array([number, Decimal("0.5")], pa.decimal128(20, 3 + more))
    read = to_series(pa.chunked_array([column]))
    assert read.tolist() == [float(number), 0.5]
