from pathlib import Path

import pandas as pd
from rich.progress import Progress

from recsys.data.dataset import Dataset
from recsys.data.datasets.download import read_download
from recsys.data.datasets.ratings import parse_ratings
from recsys.data.formats.packed_file import read_packed
from recsys.data.from_table import cut
from recsys.data.from_table import row_order
from recsys.data.schema import Schema
from recsys.data.shares import cut_by_user
from recsys.errors import DataError

COLUMNS = ["user", "item", "like", "rating"]


def rated_items(
    raw_dir: Path,
    seed: int,
    progress: Progress,
    file: str,
    archive: str | None = None,
    by: str = "user",
    validation_share: float = 0.1,
    test_share: float = 0.1,
    like: float = 4.0,
) -> Dataset:
    """Prepares ratings as they are: a row each, and no others beside them.

    The tasks are the rating and whether it is high, `like`.

    Args:
        raw_dir: Folder of the file.
        seed: Seed of the splits.
        progress: Shows how much is read.
        file: Name of the file, packed where it ends in `.gz` or `.xz`: a line
            is a user, an item, a rating from 1 to 5 and, or not, a timestamp,
            whole numbers between tabs (MovieLens's u.data) or `::`
            (ratings.dat).
        archive: Zip archive with the file. Default: none.
        by: Unit of the random split: the ratings of each user, with equal
            shares (user), or all ratings together (row).
        validation_share: Share of the ratings for validation.
        test_share: The same for the test.
        like: Lowest rating that counts as a like.

    Returns:
        The data set.

    Raises:
        DataError: The file is missing or broken, or too small for the splits.
        ValueError: A share is not between 0 and 1, or `by` is neither.
    """
    if by not in ("user", "row"):
        raise ValueError(f"`by` must be 'user' or 'row'. Received: by={by!r}")
    path, text = _read(raw_dir, file, archive)
    separator = "::" if b"::" in text.split(b"\n", 1)[0] else "\t"
    ratings = parse_ratings(text, path, separator, progress)
    rows = pd.DataFrame(ratings.assign(like=(ratings["rating"] >= like) * 1.0))
    shares = {"validation": validation_share, "test": test_share}
    if by == "user":
        splits = cut_by_user(rows[COLUMNS], "user", shares, seed, path)
    else:
        order = row_order(len(rows), None, seed)
        splits = cut(rows[COLUMNS].iloc[order], shares, path)
    schema = Schema(
        "ratings",
        {"user": "id", "item": "id"},
        {"like": "binary", "rating": "regression"},
        item="item",
        user="user",
    )
    return Dataset(schema, splits)


def _read(raw_dir: Path, file: str, archive: str | None) -> tuple[Path, bytes]:
    if archive is not None:
        return read_download(raw_dir, archive, file)
    path = raw_dir / file
    if not path.is_file():
        raise DataError.at(path, "a file", "none of that name")
    return path, read_packed(path)
