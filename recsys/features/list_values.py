"""Columns with a list in each row."""

import re
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import compute

from recsys.columns.column_values import refuse
from recsys.columns.column_values import refuse_broken_texts
from recsys.features.id_values import LARGEST_INTEGER

SEPARATOR = "|"
_LISTS = (list, tuple, np.ndarray)


def flattened(column: pd.Series, file: object) -> tuple[pd.Series, np.ndarray]:
    """Returns the values of all lists one after the other.

    Args:
        column: A list in each row: one of Python, NumPy or Arrow, or a text
            with the values between `|`. What is missing, and an empty text,
            is an empty list.
        file: Where the column comes from, for the error message.

    Returns:
        The values, indexed by the position of their row, and the length of
        each list, `(rows,)`.

    Raises:
        DataError: A value is no list.

    Example:
    >>> values, lengths = flattened(pd.Series(["a|b", None, "c"]), "log.csv")
    >>> values.tolist(), values.index.tolist(), lengths.tolist()
    (['a', 'b', 'c'], [0, 0, 2], [2, 0, 1])
    """
    if pd.api.types.is_numeric_dtype(column):
        # A file of texts whose lists have one number at most.
        lists = [[] if pd.isna(value) else [value] for value in column]
    else:
        lists = [_as_list(value) for value in _rows_of(column)]
        bad = pd.Series([values is None for values in lists], dtype=bool)
        refuse(column, bad, "a list, or values between `|`", file)
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    rows = np.repeat(np.arange(len(lists)), lengths)
    values = _joined(lists)
    # Before pandas makes a column of texts of them, which cannot hold such.
    objects = pd.Series(values, rows, dtype=values.dtype, name=column.name)
    refuse_broken_texts(objects, file)
    if pd.api.types.infer_dtype(objects) == "mixed":
        single = objects.map(pd.api.types.is_scalar).astype(bool)
        refuse(objects, ~single, "single values in a list", file)
    return pd.Series(values, rows, name=column.name), lengths


def split(values: np.ndarray, lengths: np.ndarray, name: Hashable) -> pd.Series:
    """Returns a column of lists, arrays, as `flattened` takes it apart.

    Args:
        values: Array of the values of all lists one after the other.
        lengths: How many of them each row has.
        name: Name of the column.
    """
    lists = np.empty(len(lengths), object)
    ends = np.cumsum(lengths)
    for row, (end, length) in enumerate(zip(ends, lengths, strict=True)):
        lists[row] = values[end - length : end]
    return pd.Series(lists, name=name)


def packed(column: pa.ChunkedArray) -> pd.Series | None:
    """Returns a column of lists of integers as one array, not one a row.

    All that is done with it row by row costs more than to read it.

    Args:
        column: A `pyarrow.ChunkedArray`.

    Returns:
        The column, with Arrow's type; `None` unless it has lists of integers
        that are ids of type `int64`, none of them missing in its list.

    Example:
    >>> column = packed(pa.chunked_array([[[7, 8], None, [9]]]))
    >>> values_of(column).tolist(), lengths_of(column).tolist()
    ([7, 8, 9], [2, 0, 1])
    """
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return None
    if not pa.types.is_integer(kind.value_type):
        return None
    values = compute.list_flatten(column)
    if values.null_count or not _fit(values):
        return None
    lengths = compute.list_value_length(column).fill_null(0).to_numpy()
    lists = pa.LargeListArray.from_arrays(
        np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        values.cast(pa.int64()).combine_chunks(),
    )
    return pd.Series(pd.arrays.ArrowExtensionArray(lists))


def is_packed(column: pd.Series) -> bool:
    """Returns whether a column that was checked is as `packed` returns it."""
    return isinstance(column.dtype, pd.ArrowDtype)


def packed_again(column: pd.Series) -> pd.Series | None:
    """Returns a column of Arrow's type as `packed` does, `None` for others.

    Args:
        column: A column of any type, which may be packed.
    """
    if not isinstance(column.dtype, pd.ArrowDtype):
        return None
    lists = packed(_arrow(column))
    if lists is None:
        return None
    return pd.Series(lists.array, column.index, name=column.name)


def _fit(integers: pa.Array) -> bool:
    """Returns whether Arrow's integers are what `as_ids` has as `int64`."""
    least, most = compute.min_max(integers).as_py().values()
    return not len(integers) or max(-least, most) <= LARGEST_INTEGER


def lengths_of(lists: pd.Series) -> np.ndarray:
    """Returns how many values each list has, int64 array `(rows,)`.

    Args:
        lists: A column as `split` or `packed` returns it.
    """
    if is_packed(lists):
        return compute.list_value_length(_arrow(lists)).to_numpy()
    return lists.map(len).to_numpy(np.int64)


def places_of(lists: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Returns the row of each value and its place there, `(values,)` each.

    Args:
        lists: A column as `split` or `packed` returns it.
    """
    lengths = lengths_of(lists)
    rows = np.repeat(np.arange(len(lists)), lengths)
    starts = np.cumsum(lengths) - lengths
    return rows, np.arange(len(rows)) - starts[rows]


def values_of(lists: pd.Series) -> pd.Series:
    """Returns the values of all lists one after the other.

    Args:
        lists: A column as `split` or `packed` returns it.
    """
    if is_packed(lists):
        return pd.Series(compute.list_flatten(_arrow(lists)).to_numpy())
    arrays = [array for array in lists if len(array)]
    if not arrays:
        return pd.Series([], dtype="int64")
    return pd.Series(_joined(arrays))


def _arrow(lists: pd.Series) -> pa.ChunkedArray:
    return pa.chunked_array(lists.array.__arrow_array__())


def as_texts(column: pd.Series, file: object) -> pd.Series:
    """Returns a column of a table with its lists, if any, as texts.

    Args:
        column: A column of any kind.
        file: Where it goes, for the error message.

    Raises:
        DataError: A value in a list has a `|` in it.

    Example:
    >>> as_texts(pd.Series([["a", "b"], [], None]), "log.csv").tolist()
    ['a|b', '', None]
    """
    if column.dtype != object:
        return column
    is_list = column.map(lambda value: isinstance(value, _LISTS))
    texts = column.copy()
    texts[is_list] = [
        SEPARATOR.join(map(str, values)) for values in column[is_list]
    ]
    lengths = column[is_list].map(len)
    parts = texts[is_list].str.count(re.escape(SEPARATOR)) + 1
    wrong = pd.Series(False, column.index)
    wrong[is_list] = (parts != lengths) & (lengths > 0)
    refuse(column, wrong, "values without `|` in a list", file)
    return texts


def _joined(lists: Sequence[Any]) -> np.ndarray:
    """The values of all lists; an array of their type where that is one."""
    filled = [part for part in lists if len(part)]
    # Beside another type, NumPy would round integers.
    types = {getattr(part, "dtype", None) for part in filled}
    if len(types) == 1 and None not in types:
        return np.concatenate(filled)
    joined = np.empty(sum(map(len, filled)), object)
    joined[:] = [value for part in filled for value in part]
    return joined


def _rows_of(column: pd.Series) -> Iterable[Any]:
    if isinstance(column.dtype, pd.ArrowDtype):
        # Pandas has integers beside null as floats.
        return _arrow(column).to_pylist()
    return column.astype(object)


def _as_list(value: Any) -> Any:
    """The values of a list; `None` for what is none."""
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return value
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, str):
        return value.split(SEPARATOR) if value else []
    # Of another array or a table, `isna` is no single answer.
    missing = pd.api.types.is_scalar(value) and pd.isna(value)
    return [] if missing else None
