"""Several files with the rows of one split."""

from collections.abc import Collection
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from recsys.columns.kind import Kind
from recsys.data.columns import parse
from recsys.data.dataset import unify
from recsys.data.from_table import read_times
from recsys.data.times import kind_of_times
from recsys.errors import DataError


def joined_tables(
    tables: Mapping[Path, pd.DataFrame], columns: Mapping[str, Kind]
) -> pd.DataFrame:
    """Parses tables and puts one below the other.

    Args:
        tables: Tables by the file that each comes from.
        columns: Names of the wanted columns with what they mean.

    Returns:
        The wanted columns, as `recsys.data.columns.parse` returns them.

    Raises:
        DataError: A column is missing, a value is wrong, or there is no row.

    Example:
    >>> from recsys.features import Id
    >>> tables = {
    ...     "a.csv": pd.DataFrame({"user": [7]}),
    ...     "b.csv": pd.DataFrame({"user": ["x8"]}),
    ... }
    >>> joined_tables(tables, {"user": Id()})["user"].tolist()
    ['7', 'x8']
    """
    parts = [parse(table, columns, file) for file, table in tables.items()]
    unify(zip(tables, parts, strict=True), columns)
    rows = pd.concat(parts, ignore_index=True)
    if rows.empty:
        raise DataError.at(next(iter(tables)), "at least one row", "no rows")
    return rows


def check_same_columns(columns: Mapping[Path, Collection[str]]) -> None:
    """Raises DataError where a file has other columns than the first.

    Args:
        columns: The names of the columns of each file.
    """
    first = next(iter(columns))
    for file, names in columns.items():
        if differing := set(columns[first]).symmetric_difference(names):
            column = min(differing)
            raise DataError.at(
                file,
                f"the columns of {first}",
                f"a further {column!r}"
                if column in names
                else f"no {column!r}",
            )


def times_by_file(
    tables: Mapping[Path, pd.DataFrame],
    time: str | None,
    time_format: str | None = None,
) -> "dict[Path, pd.Series]":
    """Reads the times of tables that are put one below the other.

    Args:
        tables: Tables by the file that each comes from.
        time: Name of the column; `None` for no times.
        time_format: What a text looks like; `None` for ISO 8601.

    Returns:
        The times of each file that has rows; nothing without a column.

    Raises:
        DataError: A time is missing or wrong, or the times of a file are of
            another kind than those of the first, such as dates and numbers.
        ValueError: There is a format without a column, or it is none.
    """
    parts = {
        file: read_times(table, time, file, time_format)
        for file, table in tables.items()
        if len(table)
    }
    timed = {file: times for file, times in parts.items() if times is not None}
    kinds = {file: kind_of_times(times) for file, times in timed.items()}
    for file, kind in kinds.items():
        first = next(iter(kinds))
        if kind != kinds[first]:
            raise DataError.at(
                file, f"{kinds[first]} as in {first}", kind, column=time
            )
    return timed
