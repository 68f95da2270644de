import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import compute
from pyarrow import types

from recsys.features.list_values import packed

_INTEGERS = {pa.int64(): pd.Int64Dtype()}
_WHOLE = pa.decimal256(76, 0)


def to_series(column: pa.ChunkedArray, pack: bool = False) -> pd.Series:
    """Returns an Arrow column as pandas, no integer rounded.

    Args:
        column: A `pyarrow.ChunkedArray`, whatever it is made of.
        pack: Whether lists of integers are to be as `packed` returns them.

    Returns:
        The values of `exact`. Integers of which some are missing are `Int64`;
        lists that integers are missing in are lists of Python.

    Example:
    >>> to_series(pa.chunked_array([[2**53 + 1, None]])).tolist()
    [9007199254740993, <NA>]
    """
    column = exact(column)
    if pack and (lists := packed(column)) is not None:
        return lists
    if _has_gaps(column):
        return pd.Series(column.to_pylist(), dtype=object)
    mapper = _INTEGERS.get if column.null_count else None
    return column.to_pandas(types_mapper=mapper)


def exact(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns an Arrow column in one of the few types that pandas can hold.

    Integers are int64, and so are decimals that are whole numbers, whatever
    their scale; texts where one is too large for that. Other decimals are
    float64, correctly rounded. What a dictionary encodes is decoded, and lists
    of any form are lists of such values. All else stays as it is.

    Args:
        column: A `pyarrow.ChunkedArray`.

    Example:
    >>> kinds = [pa.uint8(), pa.uint64(), pa.decimal128(20, 0)]
    >>> [str(exact(pa.chunked_array([[7]], kind)).type) for kind in kinds]
    ['int64', 'int64', 'int64']
    >>> exact(pa.chunked_array([[2**64 - 1]], pa.uint64())).to_pylist()
    ['18446744073709551615']
    """
    kind = column.type
    if types.is_dictionary(kind):
        return exact(compute.dictionary_decode(column))
    if types.is_integer(kind):
        integers = cast_or_none(column, pa.int64())
        return column.cast(pa.string()) if integers is None else integers
    if types.is_decimal(kind):
        return _exact_decimals(column)
    if types.is_string_view(kind):
        return column.cast(pa.large_string())
    return _exact_lists(column) if is_list(kind) else column


def is_list(kind: pa.DataType) -> bool:
    """Returns whether an Arrow type is that of lists, of any form."""
    return (
        _has_offsets(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def large_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns an Arrow column of lists of any form as `large_list`s."""
    kind = pa.large_list(column.type.value_field)
    if _has_offsets(column.type) or types.is_fixed_size_list(column.type):
        return column.cast(kind)
    # Arrow's cast of a slice of list views ends the process.
    return pa.chunked_array([pa.array(column.to_pylist(), kind)])


def cast_or_none(
    column: pa.ChunkedArray, kind: pa.DataType
) -> pa.ChunkedArray | None:
    """Returns an Arrow column as another type, `None` where it does not fit."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        return None


def _exact_decimals(column: pa.ChunkedArray) -> pa.ChunkedArray:
    whole = cast_or_none(column, _WHOLE)
    if whole is not None:
        integers = cast_or_none(whole, pa.int64())
        return whole.cast(pa.string()) if integers is None else integers
    # Arrow's own way from decimals to floats rounds more than once.
    return column.cast(pa.string()).cast(pa.float64())


def _exact_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    lists = large_lists(column)
    flat = compute.list_flatten(lists)
    values = exact(flat)
    if values.type == flat.type and _has_offsets(column.type):
        return column
    lengths = compute.list_value_length(lists)
    ends = np.cumsum(lengths.fill_null(0).to_numpy(), dtype=np.int64)
    return pa.chunked_array(
        [
            pa.LargeListArray.from_arrays(
                np.concatenate([[0], ends]),
                values.combine_chunks(),
                mask=lengths.is_null().combine_chunks(),
            )
        ]
    )


def _has_offsets(kind: pa.DataType) -> bool:
    return types.is_list(kind) or types.is_large_list(kind)


def _has_gaps(column: pa.ChunkedArray) -> bool:
    """Returns whether lists miss integers, which would become floats."""
    if not _has_offsets(column.type):
        return False
    values = compute.list_flatten(column)
    return types.is_integer(values.type) and values.null_count > 0
