import os
from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import Progress

from recsys.data.dataset import Dataset
from recsys.data.datasets.download import check_release
from recsys.data.datasets.download import find_download
from recsys.data.datasets.two_tasks import two_tasks_schema
from recsys.data.splitting import split_rows
from recsys.errors import DataError
from recsys.errors.reading import reading
from recsys.errors.shown import shown

PARTS = (1, 2, 3)
RELEASE = {"users": 73_421, "ratings": 4_136_360}
NUM_JOKES = 100
NOT_RATED = 99.0
LARGEST = 10.0  # Ratings reach from -10 to 10.


def jester(
    raw_dir: Path, seed: int, progress: Progress, scale: float = 5.0
) -> Dataset:
    """Prepares the Jester ratings as two tasks, watch and rating.

    Every pair of a user and a joke is a row: watch is whether the user has
    rated the joke, the rating is missing where not. 70 % of the rows are the
    training split, 15 % each the validation and the test split, all with the
    same share of ratings.

    The papers report mean squared errors of 0.73 to 0.75, too little for
    ratings from -10 to 10, whose variance is 27 in part 1. Divided by 5 it is
    1.1, of which a model may well leave that much.

    Args:
        raw_dir: Folder with any of the three parts: `jester-data-1.xls` (or
            `.csv`) and so on, or zip archives of them, `jester-data-1.zip` or
            `jester_dataset_1_1.zip`. Users are numbered from 1, through all
            parts that are there; jokes from 1 to 100. All parts together must
            have the published number of ratings; fewer are taken as a subset.
        seed: Seed of the splits.
        progress: Shows how many parts are read.
        scale: Divisor of the ratings.

    Returns:
        The data set.

    Raises:
        DataError: The download is missing or broken.
        ValueError: The scale is not positive and finite.

    References:
        Goldberg, Roeder, Gupta, Perkins. Eigentaste: A Constant Time
        Collaborative Filtering Algorithm. Information Retrieval 4 (2), 2001.
        Ibrahim, Chen, Hazimeh, Ponomareva, Zhao, Mazumder. COMET: Learning
        Cardinality Constrained Mixture of Experts with Trees and Local Search.
        KDD 2023, table 7 (mean squared errors), supplement S1.1.
    """
    if not 0 < scale < np.inf:
        raise ValueError(
            f"`scale` must be positive and finite. Received: scale={scale}"
        )
    ratings = _read_parts(raw_dir, progress)
    counts = {
        "users": len(ratings),
        "ratings": int(np.count_nonzero(~np.isnan(ratings))),
    }
    check_release("jester", raw_dir, counts, RELEASE)
    splits = split_rows(
        _pairs(ratings / scale),
        "watch",
        test=0.15,
        validation=0.15 / 0.85,
        seed=seed,
        source=raw_dir,
    )
    return Dataset(two_tasks_schema("jester"), splits)


def _read_parts(raw_dir: Path, progress: Progress) -> np.ndarray:
    parts = []
    for part in progress.track(PARTS, description="Reading parts"):
        archives = [f"jester-data-{part}.zip", f"jester_dataset_1_{part}.zip"]
        members = [f"jester-data-{part}.xls", f"jester-data-{part}.csv"]
        download = find_download(raw_dir, archives, members)
        if download is not None:
            file, content = download
            parts.append(parse_joke_ratings(content, file))
    if not parts:
        raise DataError.at(
            raw_dir,
            "jester-data-1 to -3, each as .xls, .csv or .zip",
            "none of these files",
        )
    return np.concatenate(parts)


def _pairs(ratings: np.ndarray) -> pd.DataFrame:
    """All pairs of users and jokes, 7 million: in small types where they do."""
    num_users, num_jokes = ratings.shape
    users = np.arange(1, num_users + 1, dtype=np.int32)
    jokes = np.arange(1, num_jokes + 1, dtype=np.int8)
    return pd.DataFrame(
        {
            "user": np.repeat(users, num_jokes),
            "item": np.tile(jokes, num_users),
            "watch": (~np.isnan(ratings)).ravel().astype(np.float64),
            "rating": ratings.ravel(),
        }
    )


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
