"""Columns as their declared kind says, checked value by value."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from recsys.columns.column_values import refuse_broken_texts
from recsys.columns.kind import Kind
from recsys.data.formats.exact_values import to_series
from recsys.errors import DataError
from recsys.errors.shown import shown


def parse(
    frame: pd.DataFrame, columns: Mapping[str, Kind], file: object
) -> pd.DataFrame:
    """Selects columns and brings each to the one form of its kind.

    Args:
        frame: The table; columns that are not asked for are left out.
        columns: Names of the wanted columns with what they mean, in order.
        file: Where the table comes from, for the error message.

    Returns:
        A new table with the wanted columns, as `check` of their kinds returns
        them, and rows numbered from 0.

    Raises:
        DataError: A column is missing or not the only one of its name, or
            holds a value that is not of its kind.

    Example:
    >>> from recsys.features import Id, Number
    >>> frame = pd.DataFrame({"user": [7, None], "age": ["31", "NA"]})
    >>> parse(frame, {"age": Number(), "user": Id()}, "people.csv")
        age  user
    0  31.0     7
    1   NaN  <NA>
    """
    check_columns(list(frame.columns), columns, file)
    parsed = {}
    for name, kind in columns.items():
        column = frame[name].reset_index(drop=True)
        if isinstance(column.dtype, pd.CategoricalDtype):
            column = _decoded(column)
        if isinstance(column.dtype, pd.ArrowDtype):
            arrow = pa.chunked_array(column.array.__arrow_array__())
            column = to_series(arrow, kind.packs_lists).rename(name)
        refuse_broken_texts(column, file)
        parsed[name] = kind.check(column, file)
    return pd.DataFrame(parsed)


def _decoded(column: pd.Series) -> pd.Series:
    """The values of categories; pandas makes floats of some integers."""
    categories = column.cat.categories
    values = categories.to_numpy(object)
    decoded = np.append(values, [None])[column.cat.codes]  # -1 where missing.
    kind = categories.dtype
    return pd.Series(
        decoded,
        dtype=kind if isinstance(kind, pd.ArrowDtype) else object,
        name=column.name,
    )


def check_columns(
    names: Sequence[object], columns: Iterable[str], file: object
) -> None:
    """Raises DataError unless each wanted column is there, and there once.

    Args:
        names: Names of the columns that are there.
        columns: Names of the wanted ones.
        file: Where they are, for the error message.
    """
    for name in columns:
        if name not in names:
            raise DataError.at(
                file, f"a column {name!r}", f"the columns {shown(list(names))}"
            )
        if (count := list(names).count(name)) > 1:
            raise DataError.at(
                file, f"one column {name!r}", f"{count} columns of that name"
            )
