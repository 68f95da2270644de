"""Values of a column, checked one by one."""

import sys
from contextlib import suppress
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from recsys.errors import DataError
from recsys.errors.shown import shown

MISSING_NUMBERS = ("", "NA", "N/A", "NULL", "null", "None", "NaN", "nan")
LARGEST_EXACT = 2**53  # Whole numbers beyond it are rounded in a float.
_MOST_BITS = sys.float_info.max_exp - 1  # Of integers that have a float.
_NUMBERS_AND_TEXTS = (str, float, Decimal, np.integer, np.floating, np.bool_)


def as_strings(ids: pd.Series) -> pd.Series:
    """Returns ids as strings; missing ones stay missing.

    Example:
    >>> as_strings(pd.Series([7, 8])).tolist()
    ['7', '8']
    """
    return ids.astype(object).map(str, na_action="ignore")


def as_numbers(
    column: pd.Series, file: object, expected: str = "a finite number"
) -> pd.Series:
    """Returns a column as `float64`, NaN where missing.

    Args:
        column: Numbers, or texts that say numbers; `true` is 1, `false` 0.
        file: Where the column comes from, for the error message.
        expected: What should be there, for the error message.

    Raises:
        DataError: A value is no number, or infinite in float32.

    Example:
    >>> as_numbers(pd.Series(["31", "NA"]), "people.csv").tolist()
    [31.0, nan]
    """
    kinds = pd.api.types
    if kinds.is_numeric_dtype(column) and not kinds.is_complex_dtype(column):
        values = column.to_numpy("float64", na_value=np.nan)
    else:
        if not isinstance(column.dtype, pd.StringDtype):
            allowed = column.map(_may_be_number).astype(bool) | column.isna()
            refuse(column, ~allowed, expected, file)
        values = _parsed(column)
    numbers = pd.Series(values, column.index, name=column.name)
    # Models compute in float32: what overflows there is infinite.
    finite = numbers.abs() <= np.finfo(np.float32).max
    if not finite.all():
        absent = column.isna()
        if not pd.api.types.is_numeric_dtype(column):
            absent |= column.isin(MISSING_NUMBERS)
        refuse(column, ~finite & ~absent, expected, file)
    return numbers


def _parsed(column: pd.Series) -> npt.NDArray[np.float64]:
    """The numbers that texts say, float64, NaN where they say none."""
    if isinstance(column.dtype, pd.StringDtype):
        for texts in (column, column.mask(column.isin(MISSING_NUMBERS))):
            with suppress(pa.ArrowInvalid):  # At once where all are numbers.
                numbers = pa.array(texts, pa.large_string()).cast(pa.float64())
                return numbers.to_numpy(zero_copy_only=False)
    values = pd.Series([*map(_truth_as_number, column)], dtype=object)
    return pd.to_numeric(values, errors="coerce").to_numpy("float64")


def _truth_as_number(value: object) -> object:
    if isinstance(value, str):
        return {"true": 1, "false": 0}.get(value.lower(), value)
    return value


def _may_be_number(value: object) -> bool:
    """Returns whether a value is a text, or a real number of a float."""
    if isinstance(value, int):
        return fits_a_float(value)
    return isinstance(value, _NUMBERS_AND_TEXTS)


def fits_a_float(value: object) -> bool:
    """Tells whether a value is no integer beyond all floats.

    Example:
    >>> fits_a_float(10**300), fits_a_float(10**400)
    (True, False)
    """
    return not isinstance(value, int) or value.bit_length() <= _MOST_BITS


def refuse_broken_texts(column: pd.Series, file: object) -> None:
    """Raises DataError for a text with half a character, a lone surrogate.

    No file can have it, nor anything else that is written in UTF-8. Texts of
    another type than `object` cannot hold it.

    Args:
        column: Values of any kind, indexed by their rows, counted from 0.
        file: Where the column comes from, for the error message.

    Example:
    >>> tags = pd.Series(["a", "b" + chr(0xD83D)], name="tag", dtype=object)
    >>> refuse_broken_texts(tags, "log")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    recsys.errors.DataError: log, column 'tag', data row 2 ...
    """
    if column.dtype == object:
        broken = column.map(_is_broken).astype(bool)
        refuse(column, broken, "valid Unicode text", file)


def _is_broken(value: object) -> bool:
    if not isinstance(value, str) or value.isascii():
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return True
    return False


def refuse(
    column: pd.Series,
    bad: pd.Series,
    expected: str,
    file: object,
    received: str | None = None,
) -> None:
    """Raises DataError, with its row, for the first bad value of a column.

    Args:
        column: The column, indexed by its rows, counted from 0.
        bad: Whether each of its values is bad.
        expected: What should have been there, for the error message.
        file: Where the column comes from, for the error message.
        received: What was there instead; the value unless given.

    Example:
    >>> ages = pd.Series([31, -7], name="age")
    >>> refuse(ages, ages < 0, "0 or more", "people.csv")
    Traceback (most recent call last):
    ...
    recsys.errors.DataError: people.csv, column 'age', data row 2 \
(counted from 1): expected 0 or more. Received: -7
    """
    where = np.flatnonzero(bad)
    if len(where):
        raise DataError.at(
            file,
            expected,
            received or shown(column.iloc[where[0]]),
            column=column.name,
            row=int(column.index[where[0]]) + 1,
        )
