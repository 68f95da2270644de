"""Canonical forms of ids.

Two values are one id if, and only if, their canonical texts are equal,
whatever holds them and whatever stands beside them:

| value | canonical text |
|---|---|
| an integer of any type and size | as Python writes it: `-7` |
| a whole float below 2**53, a whole `Decimal` | that of the integer |
| a text | itself, unchanged; `007`, ` 7`, `7.0` and `+7` are no integers |
| an empty text, `None`, NaN, NaT, `pandas.NA` | none: it is missing |

All else is no id: other floats (from 2**53 on, or 2**24 in float32, a float
may be a rounded neighbour), truth values, bytes, dates, lists.

`as_ids` is the only place where values become ids. Its form is a matter of
speed and size alone: ids are held as `int64`, or `Int64` where some are
missing, if all of a column are integers that fit, and as their canonical texts
otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from recsys.columns.column_values import LARGEST_EXACT
from recsys.columns.column_values import as_strings
from recsys.columns.column_values import refuse

# The smallest integer of 64 bits is what a served model takes for a missing
# one: it is held as a text.
LARGEST_INTEGER = 2**63 - 1
_EXPECTED = "an integer or a string"
_DIGITS = 4300  # Python writes out no longer integer.
_TOO_LONG = 10**_DIGITS
_REFUSED = object()


def as_ids(column: pd.Series, file: object) -> pd.Series:
    """Returns values as ids, which the module's docstring defines.

    Args:
        column: The values, of any type.
        file: Where they come from, for the error message.

    Returns:
        `int64`, or `Int64` where some are missing, if all ids are integers
        from -(2**63 - 1) to 2**63 - 1; else texts. What is there already
        comes back unchanged.

    Raises:
        DataError: A value is no id.

    Example:
    >>> as_ids(pd.Series([7.0, None]), "log.csv").tolist()
    [7, <NA>]
    >>> as_ids(pd.Series([7, "007", "", 2**64], dtype=object), "").tolist()
    ['7', '007', None, '18446744073709551616']
    """
    if isinstance(column.dtype, pd.SparseDtype):
        dense = np.asarray(column.array)
        column = pd.Series(dense, column.index, name=column.name)
    kind: Any = column.dtype
    if pd.api.types.is_integer_dtype(kind):
        return _integers(column, file)
    if pd.api.types.is_float_dtype(kind):
        return _whole(column, file)
    if kind != "str":  # Categories, decimals and texts of other types.
        column = column.astype(object)
    inferred = pd.api.types.infer_dtype(column, skipna=True)
    if inferred == "string":
        empty = column.isin([""])
        if not empty.any():
            return column
        column = column.mask(empty)
        if column.notna().any():
            return column
    if inferred == "integer":
        return _integers(column, file)
    return _one_by_one(column, file)


def unified_ids(
    columns: Sequence[pd.Series],
) -> Sequence[pd.Series]:
    """Makes all columns texts if one of them is.

    Args:
        columns: Ids as `as_ids` returns them.
    """
    integers = [pd.api.types.is_integer_dtype(column) for column in columns]
    if any(integers) and not all(integers):
        return [as_strings(column) for column in columns]
    return columns


def _integers(column: pd.Series, file: object) -> pd.Series:
    """Integers of any type, among them missing ones."""
    there = column.dropna()
    if len(there):
        least, most = int(there.min()), int(there.max())
        if max(-least, most) > LARGEST_INTEGER:
            long = column.map(_is_too_long, na_action="ignore")
            expected = f"an integer of at most {_DIGITS:,} digits"
            refuse(column, long.fillna(False).astype(bool), expected, file)
            return as_strings(column)
    if column.dtype == ("int64" if len(there) == len(column) else "Int64"):
        return column
    # As a whole, pandas may turn integers beside a missing one into floats.
    absent = column.isna().to_numpy()
    integers = np.zeros(len(column), np.int64)
    integers[~absent] = there.astype("int64")
    return _held(integers, absent, column)


def _is_too_long(integer: int | np.integer) -> bool:
    return abs(int(integer)) >= _TOO_LONG


def _whole(column: pd.Series, file: object) -> pd.Series:
    """Whole floats as integers."""
    kind: Any = getattr(column.dtype, "numpy_dtype", column.dtype)
    floats = column.to_numpy(kind, na_value=np.nan)
    absent = np.isnan(floats)
    exact = np.abs(floats) < _rounded_from(kind)
    whole = exact & (floats == np.floor(floats))
    refuse(column, pd.Series(~whole & ~absent), _EXPECTED, file)
    return _held(np.where(absent, 0, floats).astype(np.int64), absent, column)


def _rounded_from(kind: npt.DTypeLike) -> int:
    """Smallest integer whose float may be that of a rounded neighbour."""
    return int(min(2 ** (np.finfo(kind).nmant + 1), LARGEST_EXACT))


def _one_by_one(column: pd.Series, file: object) -> pd.Series:
    """Values of several types."""
    ids = [_id(value) for value in column]
    refused = pd.Series([id is _REFUSED for id in ids], dtype=bool)
    refuse(column, refused, _EXPECTED, file)
    if not all(map(_fits, ids)):
        texts = [None if id is None else str(id) for id in ids]
        return pd.Series(texts, column.index, object, column.name)
    absent = np.array([id is None for id in ids], bool)
    return _held(np.array([id or 0 for id in ids], np.int64), absent, column)


def _fits(id: Any) -> bool:
    return not isinstance(id, str) and abs(id or 0) <= LARGEST_INTEGER


def _id(value: Any) -> Any:
    """A value as an integer or a text, `None` where it is missing."""
    if isinstance(value, str):
        return str(value) or None
    if isinstance(value, bool | np.bool_ | np.timedelta64):
        missing = isinstance(value, np.timedelta64) and np.isnat(value)
        return None if missing else _REFUSED
    if isinstance(value, int | np.integer):
        return _REFUSED if _is_too_long(value) else int(value)
    if isinstance(value, float | np.floating):
        return _of_float(value)
    if isinstance(value, Decimal):
        return _of_decimal(value)
    missing = pd.api.types.is_scalar(value) and pd.isna(value)
    return None if missing else _REFUSED


def _of_float(value: Any) -> Any:
    if np.isnan(value):
        return None
    exact = abs(value) < _rounded_from(type(value))
    return int(value) if exact and value % 1 == 0 else _REFUSED


def _of_decimal(value: Decimal) -> Any:
    if value.is_nan():
        return None
    if not value.is_finite() or value.adjusted() >= _DIGITS:
        return _REFUSED
    return int(value) if value == value.to_integral_value() else _REFUSED


def _held(
    integers: np.ndarray, absent: np.ndarray, column: pd.Series
) -> pd.Series:
    """Integers as a column in the place of another, some of them missing."""
    values: np.ndarray | pd.arrays.IntegerArray = integers
    if absent.any():
        values = pd.arrays.IntegerArray(integers, absent)
    return pd.Series(values, column.index, name=column.name)


@dataclass(frozen=True)
class Unseen:
    """Number of a split's ids that training does not have.

    Attributes:
        ids: How many different ids the split has.
        share_of_ids: Share of them that are not in the training split.
        share_of_rows: Share of the rows that have one of these.
    """

    ids: int
    share_of_ids: float
    share_of_rows: float

    @classmethod
    def of(cls, column: pd.Series, train: pd.Series) -> "Unseen":
        """Compares a column of ids with that of the training split.

        Example:
        >>> Unseen.of(pd.Series([7, 7, 7, 8]), pd.Series([8, 9]))
        Unseen(ids=2, share_of_ids=0.5, share_of_rows=0.75)
        """
        values, known = unified_ids(
            [as_ids(ids, "ids").dropna() for ids in (column, train)]
        )
        unseen = values[~values.isin(known.unique())]
        num_ids = values.nunique()
        return cls(
            num_ids,
            unseen.nunique() / max(1, num_ids),
            len(unseen) / max(1, len(column)),
        )
