"""One Arrow type for a column that has several in the parts of a table."""

from collections.abc import Iterable
from collections.abc import Sequence

import pyarrow as pa
from pyarrow import compute
from pyarrow import types

from recsys.columns.column_values import LARGEST_EXACT
from recsys.data.formats.exact_values import cast_or_none
from recsys.data.formats.written_values import written


def common_type(
    parts: Sequence[tuple[pa.DataType, Iterable[pa.ChunkedArray]]],
) -> pa.DataType:
    """Returns a type in which no value of a column is another one.

    It is the one that Arrow promotes the types to, such as that of the larger
    of two integers or of the finer of two times, where all values fit into it;
    otherwise that of texts, which as ids are what the values are. Integers
    beside floats are floats unless that rounds one.

    Args:
        parts: The type of the column in each part, and its chunks there, which
            are looked at where the types differ.

    Example:
    >>> ints, floats = pa.array([2**53 + 1]), pa.array([0.5])
    >>> common_type([(ints.type, [ints[:0]]), (floats.type, [floats])])
    DataType(double)
    >>> common_type([(ints.type, [ints]), (floats.type, [floats])])
    DataType(string)
    """
    kinds = {kind for kind, _ in parts if not types.is_null(kind)}
    if not kinds:
        return pa.null()
    if len(kinds) > 1:
        kinds = {_decoded(kind) for kind in kinds}
    if len(kinds) == 1:
        return kinds.pop()
    promoted = _promoted(kinds)
    fits = promoted is not None and all(
        _fits(chunk, promoted)
        for kind, chunks in parts
        if kind != promoted
        for chunk in chunks
    )
    return promoted if fits else pa.string()


def as_type(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Returns a column of a part as `common_type` of all parts.

    Args:
        column: A `pyarrow.ChunkedArray`.
        kind: The type.
    """
    if column.type == kind:
        return column
    if types.is_dictionary(column.type) and not types.is_dictionary(kind):
        return as_type(compute.dictionary_decode(column), kind)
    return _id_texts(column) if types.is_string(kind) else column.cast(kind)


def _decoded(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if types.is_dictionary(kind) else kind


def _promoted(kinds: set[pa.DataType]) -> pa.DataType | None:
    """The type that Arrow promotes types to, `None` if there is none."""
    ordered = sorted(kinds, key=str)
    # Texts and bytes would be bytes.
    if any(map(types.is_nested, kinds)) or len({*map(_is_text, kinds)}) > 1:
        return None
    schemas = [pa.schema([("column", kind)]) for kind in ordered]
    try:
        unified = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    return unified.field("column").type


def _id_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """As `written`, but whole numbers as integers are, also of floats."""
    texts = written(column)
    if not (types.is_floating(column.type) or types.is_decimal(column.type)):
        return texts
    whole = compute.replace_substring_regex(texts, r"^(-?\d+)\.0+$", r"\1")
    if types.is_decimal(column.type):
        return whole
    exact = compute.less(compute.abs(column), LARGEST_EXACT)
    return compute.if_else(exact, whole, texts)


def _is_text(kind: pa.DataType) -> bool:
    return (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
    )


def _fits(column: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Returns whether a column comes back from another type as it was."""
    if types.is_dictionary(column.type):
        column = compute.dictionary_decode(column)
    there = cast_or_none(column, kind)
    if there is None:
        return False
    if not (types.is_integer(column.type) or types.is_decimal(column.type)):
        return True
    back = cast_or_none(there, column.type)
    return back is not None and back.equals(column)
