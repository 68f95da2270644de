"""Names of a table's columns: in the first row of a text file, by pattern."""

import re
from collections import Counter
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from recsys.data.formats.csv_file import csv_batches
from recsys.errors import DataError
from recsys.errors.shown import shown

FIRST_ROW = "first-row"

# Numbers and dates, as no one calls a column; and nothing at all.
_DATA = re.compile(
    r"\s*(?:[+-]?\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?"
    r"|\d{4}-\d\d-\d\d.*|\d\d?[./]\d\d?[./]\d{2,4}.*|)\s*"
)
_NO_HEADER = "where the first row is data"
_EXCLUDED = "excluded"


def names_without_header(
    header: str | None, columns: Sequence[str]
) -> list[str] | None:
    """Returns the names of the columns of files without a header.

    Args:
        header: `"first-row"` for files whose first row names the columns,
            `None` for files without.
        columns: The names in the order of the columns, for files without.

    Returns:
        `None` for files with a header.

    Raises:
        ValueError: `header` is something else, or there are names beside a
            header, or none without, or one that is empty or there twice.

    Example:
    >>> names_without_header(None, ["user", "item"])
    ['user', 'item']
    >>> names_without_header("first-row", [])
    """
    if header not in (FIRST_ROW, None):
        raise ValueError(
            f"`header` must be {FIRST_ROW} or none. Received: header={header!r}"
        )
    if header == FIRST_ROW:
        if columns:
            raise ValueError(
                "`columns` must come with header=none, for files without a "
                f"header. Received: columns={list(columns)}"
            )
        return None
    names = list(columns)
    if not names or not all(names) or len(set(names)) < len(names):
        raise ValueError(
            "`columns` must name each column of files without a header, "
            f"with different names in the order of the columns. Received: "
            f"columns={names}"
        )
    return names


def check_header(
    file: Path, separator: str | None, wanted: Collection[str]
) -> None:
    """Raises DataError if the first row of a text file seems to be data.

    It does where the names in it do not serve as such, as one is there twice
    or a wanted column is not there, and where one of them is a number, a date
    or empty, or no wanted column is there at all.

    Args:
        file: The file. Parquet files and missing files are not checked.
        separator: What stands between two fields; found out unless given.
        wanted: Names of columns, or patterns of names.
    """
    if not file.is_file() or ".parquet" in file.suffixes:
        return
    names = next(csv_batches(file, separator)).schema.names
    counts = Counter(names)
    data = any(_DATA.fullmatch(name) for name in names)
    twice = [name for name in names if counts[name] > 1]
    missing = [
        name
        for name in wanted
        if name not in names
        and not any(fnmatchcase(column, name) for column in names)
    ]
    none_there = bool(missing) and len(missing) == len(wanted)
    if (missing or twice) and (data or none_there):
        raise DataError.at(
            file,
            ("different names" if twice else f"a column {missing[0]!r}")
            + " in the header "
            f"({'the first row looks like data' if data else _NO_HEADER}: use "
            "--option header=none and --option columns=NAME,NAME,...)",
            f"two columns {twice[0]!r}"
            if twice
            else f"the columns {shown(names)}",
        )


def named_columns(
    columns: Sequence[str],
    wanted: Mapping[str, Sequence[str]],
    file: object,
    exclude: Sequence[str] = (),
) -> dict[str, str]:
    """Finds the columns that names and patterns stand for.

    Args:
        columns: Names of the columns that there are.
        wanted: For each type, names of columns or patterns of names (`*` any
            characters, `?` one, `[0-9]` one of these). A column that is
            named goes by its name; patterns do not take it.
        file: Where the columns come from, for the error message.
        exclude: Names or patterns of columns that no pattern takes.

    Returns:
        The columns that are wanted with their types, in the given order.

    Raises:
        DataError: Nothing has a name or matches a pattern, or a column would
            have two types.

    Example:
    >>> wanted = {"id": ["*"], "number": ["D*"], "binary": ["click"]}
    >>> named_columns(["click", "101", "D508"], wanted, "log.csv")
    Traceback (most recent call last):
    ...
    recsys.errors.DataError: log.csv, column 'D508': expected one type. \
Received: id and number
    >>> named_columns(["click", "101"], {**wanted, "number": []}, "log.csv")
    {'click': 'binary', '101': 'id'}
    >>> named_columns(["click", "101"], {"id": ["*"]}, "log.csv", ["cl*"])
    {'101': 'id'}
    """
    by_name: dict[str, list[str]] = {column: [] for column in columns}
    by_pattern: dict[str, list[str]] = {column: [] for column in columns}
    for kind, names in (*wanted.items(), (_EXCLUDED, exclude)):
        for name in names:
            if name in by_name:
                by_name[name].append(kind)
                continue
            matching = [
                column for column in columns if fnmatchcase(column, name)
            ]
            if not matching:
                raise DataError.at(
                    file, f"a column {name!r}", f"the columns {list(columns)}"
                )
            for column in matching:
                by_pattern[column].append(kind)
    types = {}
    for column in columns:
        kinds = sorted(set(by_name[column] or by_pattern[column]))
        if not by_name[column] and _EXCLUDED in kinds:
            kinds = []
        if len(kinds) > 1:
            raise DataError.at(
                file, "one type", " and ".join(kinds), column=column
            )
        if kinds and kinds != [_EXCLUDED]:
            types[column] = kinds[0]
    return types
