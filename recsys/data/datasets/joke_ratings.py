"""The files of Jester: a row per user, a column per joke, `.xls` or CSV."""

import os
from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recsys.errors import DataError
from recsys.errors.reading import reading
from recsys.errors.shown import shown

NUM_JOKES = 100
NOT_RATED = 99.0
LARGEST = 10.0  # Ratings reach from -10 to 10.


def parse_joke_ratings(content: bytes, file: Path) -> np.ndarray:
    """Parses a file of Jester.

    Each row is a user: how many jokes are rated, then the rating of each of
    the 100 jokes, from -10 to 10, or 99 where there is none.

    Args:
        content: Content of the file: a CSV file without a header, or an Excel
            workbook with one sheet.
        file: Where the content comes from; a workbook if it ends in `.xls`.

    Returns:
        Array `(users, 100)` of ratings, NaN where there is none.

    Raises:
        DataError: The file is not of this form, or a row is not, or does not
            hold as many ratings as it says.

    Example:
    >>> line = b"2,-7.82,8.79" + b",99" * 98
    >>> parse_joke_ratings(line, Path("jester-data-1.csv"))[0, :3]
    array([-7.82,  8.79,   nan])
    """
    read = _workbook_rows if file.suffix == ".xls" else _csv_rows
    parsed = [
        _numbers(row, number, file)
        for number, row in enumerate(read(content, file), start=1)
    ]
    if not parsed:
        raise DataError.at(file, "a row for each user", "no rows")
    rows = np.stack(parsed)
    stated, ratings = rows[:, 0], rows[:, 1:]
    rated = ratings != NOT_RATED
    outside = rated & ~(np.abs(ratings) <= LARGEST)
    if outside.any():
        user, joke = np.argwhere(outside)[0]
        raise DataError.at(
            file,
            "ratings from -10 to 10, or 99",
            shown(ratings[user, joke]),
            column=int(joke) + 1,
            row=int(user) + 1,
        )
    counts = rated.sum(axis=1)
    if (counts != stated).any():
        user = np.flatnonzero(counts != stated)[0]
        raise DataError.at(
            file,
            f"as many ratings as its column 0 says, {stated[user]:g}",
            str(counts[user]),
            row=int(user) + 1,
        )
    return np.where(rated, ratings, np.nan)


def _csv_rows(content: bytes, file: Path) -> Iterable[Sequence[object]]:
    return (line.decode("latin-1").split(",") for line in content.splitlines())


def _workbook_rows(content: bytes, file: Path) -> Iterable[Sequence[object]]:
    import xlrd

    with (
        reading(file, "an Excel workbook", DataError),
        open(os.devnull, "w") as log,
        xlrd.open_workbook(file_contents=content, logfile=log) as workbook,
    ):
        sheet = workbook.sheet_by_index(0)
        return [sheet.row_values(row) for row in range(sheet.nrows)]


def _numbers(row: Sequence[object], number: int, file: Path) -> np.ndarray:
    if len(row) != 1 + NUM_JOKES:
        received = f"{len(row)} fields"
    else:
        try:
            return np.array(row, dtype=np.float64)
        except ValueError:
            received = shown(next(x for x in row if not _is_number(x)))
    raise DataError.at(file, f"{1 + NUM_JOKES} numbers", received, row=number)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
