"""Text forms of a Parquet file's values."""

import base64
import datetime
import json

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import compute
from pyarrow import types

from recsys.data.formats.exact_values import is_list
from recsys.data.formats.exact_values import large_lists


def text_frame(table: pa.Table) -> pd.DataFrame:
    """Returns a table as texts, and lists of texts, for a text file.

    Args:
        table: A `pyarrow.Table`.

    Returns:
        What `written` returns; but a list of single values is a list of their
        texts, in which what is missing is an empty text.
    """
    return pd.DataFrame(
        {name: _texts(table[name]) for name in table.column_names},
        index=pd.RangeIndex(len(table)),
    )


def written(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns a column as texts, null where missing.

    A value is written the same whatever stands around it: integers and
    decimals with all their digits, floats as the shortest text that says
    them, `True` and `False`, times in ISO 8601 and as exact as their type is,
    what a dictionary encodes as itself, bytes in Base64; lists, structures
    and maps as JSON. NaN is missing.

    Args:
        column: A `pyarrow.ChunkedArray`.

    Example:
    >>> written(pa.chunked_array([[0.5, 1.0, None]])).to_pylist()
    ['0.5', '1.0', None]
    >>> written(pa.chunked_array([[[7, 8], None]])).to_pylist()
    ['[7, 8]', None]
    """
    kind = column.type
    if types.is_dictionary(kind):
        return written(compute.dictionary_decode(column))
    if _casts_to_text(kind):
        return column.cast(pa.string())
    if types.is_floating(kind):
        values = column.to_numpy()  # NaN where missing.
        texts = [None if np.isnan(value) else str(value) for value in values]
    else:
        texts = [_text(value) for value in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _casts_to_text(kind: pa.DataType) -> bool:
    return (
        types.is_integer(kind)
        or types.is_decimal(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_timestamp(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
    )


def _texts(column: pa.ChunkedArray) -> pd.Series:
    kind = column.type
    if not is_list(kind) or types.is_nested(kind.value_type):
        return written(column).to_pandas()
    lists = large_lists(column)
    texts = written(compute.list_flatten(lists)).fill_null("").to_pylist()
    ends = np.cumsum(compute.list_value_length(lists).fill_null(0))
    held = pd.Series([None] * len(lists), dtype=object)
    for row, (there, end) in enumerate(
        zip(lists.is_valid().to_pylist(), ends, strict=True)
    ):
        start = ends[row - 1] if row else 0
        held[row] = texts[start:end] if there else None
    return held


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.timedelta):
        return str(pd.Timedelta(value))
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=_text)
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return str(value)
