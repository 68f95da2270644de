"""Ids, whether a row has one or a list of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import pandas as pd

from recsys.column_values import LARGEST_EXACT
from recsys.column_values import as_strings
from recsys.column_values import refuse
from recsys.features.value_counts import ValueCounts

if TYPE_CHECKING:
    from recsys.features.vocabulary import Vocabulary

_EXPECTED = "an integer or a string"


def as_ids(column: "pd.Series[Any]", file: object) -> "pd.Series[Any]":
    """Returns ids as integers or as strings.

    They are integers (`int64`, or `Int64` where some are missing) or strings:
    floats that are whole numbers become integers, a column that mixes integers
    and strings becomes strings. An empty string is missing.

    Args:
        column: The ids.
        file: Where they come from, for the error message.

    Raises:
        DataError: A value is neither.

    Example:
    >>> as_ids(pd.Series([7.0, None]), "log.csv").tolist()
    [7, <NA>]
    """
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind in ("integer", "empty"):
        return _integers(column)
    if kind in ("floating", "mixed-integer-float"):
        floats = column.astype("float64")
        whole = (floats % 1 == 0) & (floats.abs() <= LARGEST_EXACT)
        refuse(column, ~whole & floats.notna(), _EXPECTED, file)
        return _integers(floats)
    if kind == "string":
        return column.where(column != "")
    allowed = column.map(_is_id).astype(bool) | column.isna()
    refuse(column, ~allowed, _EXPECTED, file)
    return as_strings(column)


def unified_ids(
    columns: Sequence["pd.Series[Any]"],
) -> Sequence["pd.Series[Any]"]:
    """Makes all columns strings if one of them is.

    Args:
        columns: Ids as `as_ids` returns them.
    """
    integers = [pd.api.types.is_integer_dtype(one) for one in columns]
    if any(integers) and not all(integers):
        return [as_strings(column) for column in columns]
    return columns


def known_ids(
    counts: ValueCounts, min_count: int, before: "Vocabulary | None" = None
) -> "Vocabulary":
    """Returns the vocabulary of the ids that are often enough there.

    Args:
        counts: How often each id is there.
        min_count: How often it must be.
        before: The vocabulary that these ids are added to, whose own ids keep
            their numbers; none unless given.
    """
    from recsys.features.vocabulary import Vocabulary

    known = [part.index[part >= min_count] for part in counts.sorted()]
    ids = known[0].append(known[1:]) if known else pd.Index([])
    return Vocabulary.of_sorted(ids) if before is None else before.grown(ids)


def _is_id(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int | np.integer | str)


def _integers(column: "pd.Series[Any]") -> "pd.Series[Any]":
    integers = column.astype("Int64")
    return integers if column.hasnans else integers.astype("int64")
