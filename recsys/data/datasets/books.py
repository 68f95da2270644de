import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from rich.progress import Progress

from recsys.data.dataset import Dataset
from recsys.data.datasets.download import check_release
from recsys.data.datasets.download import read_download
from recsys.data.datasets.ratings import check_unique
from recsys.data.datasets.two_tasks import two_tasks_schema
from recsys.data.formats.lines import parse_lines
from recsys.data.splitting import split_rows
from recsys.errors import DataError
from recsys.errors.bounds import check_count
from recsys.errors.choices import check_choice
from recsys.errors.shown import shown


def one_pass(records: pd.DataFrame, minimum: int) -> pd.DataFrame:
    """Keeps the records whose user and item both have enough of them.

    They are counted among all records given, so that a user or an item may be
    left with fewer.

    Args:
        records: Columns user and item at least.
        minimum: Fewest records of a user, and of an item.

    Returns:
        The rows that are kept, in their order.

    Example:
    >>> records = pd.DataFrame({"user": [1, 1, 2], "item": [7, 8, 7]})
    >>> one_pass(records, 2)
       user  item
    0     1     7
    """
    enough = pd.Series(True, records.index)
    for column in ("user", "item"):
        size = records.groupby(column)[column].transform("size")
        enough &= size >= minimum
    return records[enough]


def k_core(records: pd.DataFrame, minimum: int) -> pd.DataFrame:
    """Repeats `one_pass` until every user and item left has enough records.

    That is the k-core of the graph that has an edge for each record, with k
    the minimum. Arguments and result are those of `one_pass`.

    Example:
    >>> records = pd.DataFrame({"user": [1, 1, 2], "item": [7, 8, 7]})
    >>> len(k_core(records, 2))
    0
    """
    while len(kept := one_pass(records, minimum)) < len(records):
        records = kept
    return records


FILTERS: dict[str, Callable[[pd.DataFrame, int], pd.DataFrame]] = {
    "k-core": k_core,
    "one-pass": one_pass,
}


_log = logging.getLogger(__name__)

ARCHIVE = "BX-CSV-Dump.zip"
MEMBER = "BX-Book-Ratings.csv"
HEADER = b'"User-ID";"ISBN";"Book-Rating"'
LINE = r'"(\d{1,18})";"(.+)";"(\d|10)"'  # An ISBN may hold quotes itself.
RELEASE = {"records": 1_149_780, "users": 105_283, "books": 340_556}
REPORTED = {"records": 556_724, "users": 18_960, "books": 31_070}
REPORTED_MINIMUM = 5


def books(
    raw_dir: Path,
    seed: int,
    progress: Progress,
    keep: str = "k-core",
    min_records: int = REPORTED_MINIMUM,
) -> Dataset:
    """Prepares the Book-Crossing ratings as two tasks, watch and rating.

    A record is a positive example of watch where it holds a rating, 1 to 10;
    where it holds 0, the user has registered the book without rating it:
    watch is 0 and the rating is missing. 70 % of the records that are kept
    are the training split, 15 % each the validation and the test split, all
    with the same share of ratings.

    The papers keep 18,960 users and 31,070 books, with 556,724 records, as
    those with at least 5 records each, and do not say how they counted. That
    the default gives these numbers is likely but not verified: the download
    was not at hand. Counting once keeps all books with 5 records but for
    those that only users with fewer have read. These should be about 38,000:
    a published selection of the books with 10 records has 17,384 of them,
    and the tail of the books' degrees (exponent 2.141 according to KONECT)
    gives 2^1.141 times as many with 5. Only the k-core takes more away.
    Whoever prepares the whole download is warned if the numbers differ.

    Args:
        raw_dir: Folder with `BX-Book-Ratings.csv` or `BX-CSV-Dump.zip`. A
            file with as many records as the release has must have its users
            and books, too; any other number is taken as a subset.
        seed: Seed of the splits.
        progress: Shows how far reading is.
        keep: `"k-core"` counts again until every user and book left has
            `min_records`; `"one-pass"` counts once.
        min_records: Minimum number of records of a user, and of a book.

    Returns:
        The data set.

    Raises:
        DataError: The download is missing or broken.
        ValueError: An option is outside its bounds.

    References:
        Ziegler, McNee, Konstan, Lausen. Improving Recommendation Lists
        Through Topic Diversification. WWW 2005 (the crawl).
        Ibrahim, Chen, Hazimeh, Ponomareva, Zhao, Mazumder. COMET: Learning
        Cardinality Constrained Mixture of Experts with Trees and Local Search.
        KDD 2023, supplement S1.1.
    """
    check_choice("keep", keep, FILTERS)
    check_count("min_records", min_records)
    file, text = read_download(raw_dir, ARCHIVE, MEMBER)
    records = parse_records(text, file, progress)
    whole = check_release("books", file, _counts(records), RELEASE)
    kept = FILTERS[keep](records, min_records)
    counts = _counts(kept)
    if whole and min_records == REPORTED_MINIMUM and counts != REPORTED:
        _log.warning(
            "%s: keep=%s leaves %s, the papers have %s.",
            file,
            keep,
            counts,
            REPORTED,
        )
    rows = kept.assign(
        watch=(kept["rating"] > 0).astype("float64"),
        rating=kept["rating"].where(kept["rating"] > 0),
    )
    splits = split_rows(
        rows[["user", "item", "watch", "rating"]],
        "watch",
        test=0.15,
        validation=0.15 / 0.85,
        seed=seed,
        source=file,
    )
    return Dataset(two_tasks_schema("books"), splits)


def parse_records(text: bytes, file: Path, progress: Progress) -> pd.DataFrame:
    r"""Parses the content of `BX-Book-Ratings.csv`.

    Args:
        text: Lines of user, ISBN and rating (0 to 10) in Latin-1, each in
            double quotes, with semicolons between them, after a header.
        file: Where the text comes from, for the error message.
        progress: Shows how many bytes are done.

    Returns:
        Columns user (integers), item (strings) and rating (floats), in file
        order.

    Raises:
        DataError: The header or a line is not of this form, or a line repeats
            a user's record of a book.

    Example:
    >>> text = b'"User-ID";"ISBN";"Book-Rating"\r\n"7";"034545104X";"0"\r\n'
    >>> parse_records(text, Path("ratings.csv"), Progress(disable=True))
       user        item  rating
    0     7  034545104X     0.0
    """
    header, _, rest = text.partition(b"\n")
    if header.rstrip(b"\r") != HEADER:
        raise DataError.at(
            file, HEADER.decode(), shown(header.decode("latin-1")), line=1
        )
    expected = '"user";"ISBN";"rating", a whole number and a rating 0 to 10'
    fields = [
        fields
        for lines in parse_lines(rest, LINE, expected, file, progress, 2)
        for fields in lines
    ]
    users, isbns, ratings = zip(*fields, strict=True) if fields else ((),) * 3
    records = pd.DataFrame(
        {
            "user": np.array(users, dtype=bytes).astype(np.int64),
            "item": [isbn.decode("latin-1") for isbn in isbns],
            "rating": np.array(ratings, dtype=bytes).astype(np.float64),
        }
    )
    check_unique(records, file, first_line=2)
    return records


def _counts(records: pd.DataFrame) -> dict[str, int]:
    return {
        "records": len(records),
        "users": records["user"].nunique(),
        "books": records["item"].nunique(),
    }
