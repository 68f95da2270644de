"""Columns as their declared type says, checked value by value."""

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from recsys.data.error import DataError
from recsys.data.error import shown

Check = Callable[["pd.Series[Any]", object], "pd.Series[Any]"]

MISSING_NUMBERS = ("", "NA", "N/A", "NULL", "null", "None", "NaN", "nan")
LARGEST_LABEL = 1e15  # Sums of squares of larger ones overflow in float32.
LARGEST_EXACT = 2**53  # Whole numbers beyond it are rounded in a float.


def parse(
    frame: pd.DataFrame, columns: Mapping[str, str], file: object
) -> pd.DataFrame:
    """Selects columns and brings each to the one form of its type.

    `"id"`: integers (`int64`, or `Int64` where some are missing) or strings;
    floats that are whole numbers become integers; a column that mixes
    integers and strings becomes strings; an empty string is missing.
    `"number"`, `"regression"`, `"binary"`: `float64`, NaN where missing.

    Args:
        frame: The table; columns that are not asked for are left out.
        columns: Names of the wanted columns with their types, in order.
        file: Where the table comes from, for the error message.

    Returns:
        A new table with the wanted columns and rows numbered from 0.

    Raises:
        DataError: A column is missing or not the only one of its name, or
            holds a value outside its type.

    Example:
    >>> frame = pd.DataFrame({"user": [7, None], "age": ["31", "NA"]})
    >>> parse(frame, {"age": "number", "user": "id"}, "people.csv")
        age  user
    0  31.0     7
    1   NaN  <NA>
    """
    for name in columns:
        if name not in frame.columns:
            raise DataError.at(
                file,
                f"a column {name!r}",
                f"the columns {shown(list(frame.columns))}",
            )
        if (count := list(frame.columns).count(name)) > 1:
            raise DataError.at(
                file, f"one column {name!r}", f"{count} columns of that name"
            )
    checks = FEATURE_TYPES | TASK_TYPES
    parsed = {}
    for name, kind in columns.items():
        column = frame[name].reset_index(drop=True)
        if isinstance(column.dtype, pd.CategoricalDtype):
            column = column.astype(object)
        parsed[name] = checks[kind](column, file)
    return pd.DataFrame(parsed)


def as_strings(ids: "pd.Series[Any]") -> "pd.Series[Any]":
    """Returns ids as strings; missing ones stay missing.

    Example:
    >>> as_strings(pd.Series([7, 8])).tolist()
    ['7', '8']
    """
    return ids.astype(object).map(str, na_action="ignore")


def _ids(column: "pd.Series[Any]", file: object) -> "pd.Series[Any]":
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind in ("integer", "empty"):
        return _integers(column)
    if kind in ("floating", "mixed-integer-float"):
        floats = column.astype("float64")
        whole = (floats % 1 == 0) & (floats.abs() <= LARGEST_EXACT)
        refuse(column, ~whole & floats.notna(), "an integer or a string", file)
        return _integers(floats)
    if kind == "string":
        return column.where(column != "")
    allowed = column.map(_is_id).astype(bool) | column.isna()
    refuse(column, ~allowed, "an integer or a string", file)
    return as_strings(column)


def _is_id(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int | np.integer | str)


def _integers(column: "pd.Series[Any]") -> "pd.Series[Any]":
    integers = column.astype("Int64")
    return integers if column.hasnans else integers.astype("int64")


def _numbers(
    column: "pd.Series[Any]", file: object, expected: str = "a finite number"
) -> "pd.Series[Any]":
    absent = column.isna()
    if pd.api.types.is_numeric_dtype(column):
        values = column.to_numpy("float64", na_value=np.nan)
    else:
        absent |= column.isin(MISSING_NUMBERS)
        texts = column.astype(object)
        values = pd.to_numeric(texts, errors="coerce").to_numpy("float64")
    numbers = pd.Series(values, name=column.name)
    # Models compute in float32: what overflows there is infinite.
    finite = numbers.abs() <= np.finfo(np.float32).max
    refuse(column, ~finite & ~absent, expected, file)
    return numbers


def _regression(column: "pd.Series[Any]", file: object) -> "pd.Series[Any]":
    labels = _numbers(column, file)
    too_large = labels.abs() > LARGEST_LABEL
    expected = f"a number of at most {LARGEST_LABEL:.0e} in size"
    refuse(column, too_large, expected, file)
    return labels


def _binary(column: "pd.Series[Any]", file: object) -> "pd.Series[Any]":
    expected = "0, 1 or nothing"
    labels = _numbers(column, file, expected)
    refuse(column, ~labels.isin((0, 1)) & labels.notna(), expected, file)
    return labels


def refuse(
    column: "pd.Series[Any]",
    bad: "pd.Series[Any]",
    expected: str,
    file: object,
    received: str | None = None,
) -> None:
    """Raises DataError, with its row, for the first bad value of a column.

    Args:
        column: The column.
        bad: Whether each of its values is bad.
        expected: What should have been there, for the error message.
        file: Where the column comes from, for the error message.
        received: What was there instead; the value unless given.

    Example:
    >>> ages = pd.Series([31, -7], name="age")
    >>> refuse(ages, ages < 0, "0 or more", "people.csv")
    Traceback (most recent call last):
    ...
    recsys.data.error.DataError: people.csv, column 'age', data row 2 \
(counted from 1): expected 0 or more. Received: -7
    """
    where = np.flatnonzero(bad)
    if len(where):
        raise DataError.at(
            file,
            expected,
            received or shown(column.iloc[where[0]]),
            column=column.name,
            row=int(where[0]) + 1,
        )


FEATURE_TYPES: dict[str, Check] = {"id": _ids, "number": _numbers}
TASK_TYPES: dict[str, Check] = {"binary": _binary, "regression": _regression}
