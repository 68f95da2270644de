"""Columns of ids in every container, with the texts that they are."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import strategies as st

# Around them, integers stop fitting into a float, or into 64 bits.
BORDERS = (0, 10**5, 2**53, 2**63, 2**64, 10**31)
INTEGERS = [
    sign * border + step
    for border in BORDERS
    for sign in (1, -1)
    for step in range(-2, 3)
]
OF_INT64 = [one for one in INTEGERS if -(2**63) <= one < 2**63]
OF_UINT64 = [one for one in INTEGERS if 0 <= one < 2**64]
EXACT_FLOATS = [float(one) for one in INTEGERS if abs(one) < 2**53]
MISSING = [None, float("nan"), pd.NaT, pd.NA, "", Decimal("NaN")]
# What no integer is written as.
TEXTS = [
    *("guest", "7.0", "+7", " 7", "7e0", "1e5", "-0", "0x7", "7\n", "é"),
    *("007", "-07", "00", "250.0", "\u0667", "1_000", "NaN", "None"),
    *("7\0", "\0", "a", "a\0", "a\0b"),  # NumPy fills texts up with NUL.
]

integers = st.sampled_from(INTEGERS)
texts = st.sampled_from([*TEXTS, *map(str, INTEGERS)])
values = st.one_of(
    integers,
    st.sampled_from(OF_INT64).map(np.int64),
    st.sampled_from(OF_UINT64).map(np.uint64),
    st.sampled_from(EXACT_FLOATS),
    integers.map(Decimal),
    integers.map(lambda one: Decimal(f"{one}.00")),
    texts,
    st.sampled_from(MISSING),
)
mixed = st.lists(values, max_size=8).map(
    lambda given: pd.Series(given, dtype=object)
)


items = st.lists(
    st.tuples(texts, st.sampled_from(["1", ".5", "2e-1", "0"])).map(":".join),
    max_size=4,
)

# For each kind of feature, what may be asked of a model that takes integers,
# or texts.
ROWS: dict[str, Any] = {
    "id": values,
    "hash": values,
    "list": st.lists(values, max_size=4),
    "weighted": items,
}


def text_of(value: Any) -> str | None:
    """The canonical text of a value, written without the product's code."""
    if isinstance(value, str):
        return value or None
    if pd.isna(value):
        return None
    return f"{int(value):d}"


def texts_of(column: "pd.Series[Any]") -> list[str | None]:
    """The canonical texts of a column."""
    return [text_of(value) for value in column.astype(object)]


def _typed(of: list[Any], dtype: Any, missing: bool) -> Any:
    element = st.sampled_from(of)
    if missing:
        element = element | st.none()
    return st.lists(element, max_size=8).map(
        lambda given: pd.Series(given, dtype=dtype)
    )


typed = st.one_of(
    _typed(OF_INT64, "int64", False),
    _typed(OF_UINT64, "uint64", False),
    _typed(OF_INT64, "Int64", True),
    _typed(OF_UINT64, "UInt64", True),
    _typed(OF_INT64, pd.ArrowDtype(pa.int64()), True),
    _typed(OF_UINT64, pd.ArrowDtype(pa.uint64()), True),
    _typed(EXACT_FLOATS, "float64", True),
    _typed(EXACT_FLOATS, "Float64", True),
    _typed([*map(Decimal, INTEGERS)], pd.ArrowDtype(pa.decimal128(38)), True),
    _typed(OF_INT64, "category", True),
    _typed([*TEXTS, *map(str, INTEGERS), ""], "category", True),
    _typed([*TEXTS, *map(str, INTEGERS), ""], "string", True),
    _typed([*TEXTS, *map(str, INTEGERS), ""], None, True),
    _typed([*TEXTS, *map(str, INTEGERS)], pd.ArrowDtype(pa.string()), True),
)
columns = mixed | typed
