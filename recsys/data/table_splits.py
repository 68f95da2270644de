"""The splits of a data set whose rows are in several files."""

import logging
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from recsys.columns.kind import Kind
from recsys.data.columns import parse
from recsys.data.dataset import Dataset
from recsys.data.dataset import unify
from recsys.data.from_table import cut
from recsys.data.from_table import read_times
from recsys.data.from_table import row_order
from recsys.data.from_table import time_ranges
from recsys.data.from_table import with_times
from recsys.data.schema import Schema
from recsys.data.times import kind_of_times
from recsys.data.times import shown_times
from recsys.errors import DataError

_log = logging.getLogger(__name__)


def dataset_from_files(
    described: Schema,
    files: Mapping[str, Sequence[Path]],
    read: Mapping[Path, pd.DataFrame],
    times_of: "Mapping[Path, pd.Series]",
    by_time: bool,
    shares: Mapping[str, float],
    seed: int,
) -> Dataset:
    """Makes a data set of tables, every value checked.

    Args:
        described: What the columns mean.
        files: The files of each split that has any, `"train"` among them.
        read: The table of each file.
        times_of: The times of each file's rows; nothing where there are none.
        by_time: Whether other splits are the end of the training rows in the
            order of their times, and not drawn.
        shares: The shares of the training rows that are for the validation and
            the test split, where they have no files.
        seed: Seed of the draw.

    Raises:
        DataError: A column or a value is missing or wrong, or there are too
            few rows.
        ValueError: A share is outside its bounds.
    """
    splits = {
        name: joined_tables(
            {
                file: with_times(read[file], described, times_of.get(file))
                for file in paths
            },
            described.columns,
        )
        for name, paths in files.items()
    }
    times: dict[str, pd.Series] = {}
    if times_of:
        times = {
            name: pd.concat(map(times_of.get, paths), ignore_index=True)
            for name, paths in files.items()
        }
    ranges = {name: (part.min(), part.max()) for name, part in times.items()}
    _warn_of_later_rows(ranges)
    missing = {name: shares[name] for name in shares if name not in files}
    if missing:
        trained = times.get("train")
        order = row_order(
            len(splits["train"]), trained if by_time else None, seed
        )
        rows = splits["train"].iloc[order]
        taken = cut(rows, missing, files["train"][0])
        ranges |= time_ranges(taken, order, trained)
        splits |= taken
    return Dataset(described, splits, ranges)


def _warn_of_later_rows(ranges: Mapping[str, tuple[Any, Any]]) -> None:
    """Warns where a model would be trained on what comes after its test."""
    for split in set(ranges) - {"train"}:
        last, first = ranges["train"][1], ranges[split][0]
        if last > first:
            _log.warning(
                "The rows to train on reach to %s, those of the %s split begin "
                "before that, at %s.",
                *shown_times([last]),
                split,
                *shown_times([first]),
            )


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
