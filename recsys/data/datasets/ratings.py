import re
from pathlib import Path

import numpy as np
import pandas as pd
from rich.progress import Progress

from recsys.data.formats.lines import parse_lines
from recsys.errors import DataError

FIELDS = {
    "user": r"(\d{1,18})",
    "item": r"(\d{1,18})",
    "rating": r"([1-5])",
    "timestamp": r"(\d{1,18})",
}


def parse_ratings(
    text: bytes, file: Path, separator: str, progress: Progress
) -> pd.DataFrame:
    r"""Parses lines of user, item, rating and, optionally, a timestamp.

    Args:
        text: Content of the file, without a header. Ids are whole numbers,
            ratings 1 to 5. Either all lines have a timestamp or none has.
        file: Where the text comes from, for the error message.
        separator: What stands between the fields.
        progress: Shows how many bytes are done.

    Returns:
        Columns user, item (integers) and rating (floats), in file order, and
        time, the timestamp, where there is one.

    Raises:
        DataError: A line is not of this form or repeats a user's rating of an
            item, or there is no line.

    Example:
    >>> text = b"1::1193::5::978300760\n1::661::3::978302109\n"
    >>> parse_ratings(text, Path("ratings.dat"), "::", Progress(disable=True))
       user  item  rating       time
    0     1  1193     5.0  978300760
    1     1   661     3.0  978302109
    """
    if not text:
        raise DataError.at(file, "lines of ratings", "an empty file")
    names = _field_names(text, separator)
    form = re.escape(separator).join(FIELDS[name] for name in names)
    expected = f"{separator.join(names)!r}, whole numbers, rating 1 to 5"
    chunks = [
        np.array(fields, dtype=bytes).astype(np.int64)
        for fields in parse_lines(text, form, expected, file, progress)
    ]
    ratings = pd.DataFrame(np.concatenate(chunks), columns=names)
    check_unique(ratings, file)
    ratings = ratings.rename(columns={"timestamp": "time"})
    return ratings.astype({"rating": "float64"})


def _field_names(text: bytes, separator: str) -> list[str]:
    """The first line decides whether there are timestamps."""
    first = text.split(b"\n", 1)[0].decode("latin-1")
    names = list(FIELDS)
    return names if first.count(separator) >= 3 else names[:3]


def check_unique(
    ratings: pd.DataFrame, file: Path, first_line: int = 1
) -> None:
    """Raises DataError where a line repeats a user's rating of an item.

    Args:
        ratings: Columns user and item, a row per line.
        file: Where the lines come from.
        first_line: Number of the first of them in the file.
    """
    repeated = np.flatnonzero(ratings.duplicated(["user", "item"]))
    if len(repeated):
        user, item = ratings.loc[repeated[0], ["user", "item"]]
        raise DataError.at(
            file,
            "each user's rating of an item once",
            f"user {user}, item {item} again",
            line=int(repeated[0]) + first_line,
        )
