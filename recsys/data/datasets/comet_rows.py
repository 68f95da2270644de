from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
from rich.progress import Progress

from recsys.data.dataset import Dataset
from recsys.data.datasets.download import find_file
from recsys.data.datasets.two_tasks import two_tasks_schema
from recsys.data.formats.packed_file import read_packed
from recsys.data.schema import Schema
from recsys.data.split_dataset import SPLITS
from recsys.errors import DataError
from recsys.errors.reading import reading

# What COMET's authors call the splits, and the folders and files of columns.
_PUBLISHED = {"train": "train", "validation": "val", "test": "test"}
_PARTS = {
    "shared_features": ["user", "item"],
    "watch_classification_targets": ["watch"],
    "rating_regression_targets": ["rating"],
}
_PACKED = ("", ".gz", ".xz")
_MOST_STARS = 5


def comet_rows(raw_dir: Path, seed: int, progress: Progress) -> Dataset:
    """Reads the rows that COMET's authors have published of MovieLens-1M.

    Their negative rows are drawn with a seed that is not known, so only on
    these files can a loss be compared with theirs row by row. Two layouts are
    read, packed (`.gz`, `.xz`) or not:

    * theirs: `shared_features/shared_features_train.csv` with the columns
      user and item, from 0 on, and `watch_classification_targets/` and
      `rating_regression_targets/` with one column each, without headers; a
      row that is not watched has the rating 0; likewise `_val` and `_test`;
    * `train.csv`, `validation.csv` and `test.csv` with the columns user,
      item, watch and rating, where a row that is not watched has no rating.

    Args:
        raw_dir: Folder of the files.
        seed: Nothing is drawn.
        progress: Shows how many splits are read.

    Returns:
        The data set, named as MovieLens-1M is, with the ids of its release.

    Raises:
        DataError: A file is missing or broken.

    References:
        Ibrahim, Chen, Hazimeh, Ponomareva, Zhao, Mazumder. COMET: Learning
        Cardinality Constrained Mixture of Experts with Trees and Local Search.
        KDD 2023; github.com/mazumder-lab/COMET, `data/datasets/movielens`.
    """
    read = _published if _is_published(raw_dir) else _table
    splits = {
        split: read(raw_dir, split)
        for split in progress.track(SPLITS, description="Reading splits")
    }
    tasks = two_tasks_schema("movielens-1m")
    schema = Schema(
        tasks.name, tasks.features, tasks.tasks, group="user", item="item"
    )
    return Dataset(schema, splits)


def _is_published(raw_dir: Path) -> bool:
    return any((raw_dir / part).is_dir() for part in _PARTS)


def _published(raw_dir: Path, split: str) -> pd.DataFrame:
    """A split in the layout of the authors, with the release's ids."""
    parts, first = [], None
    for part, columns in _PARTS.items():
        name = f"{part}/{part}_{_PUBLISHED[split]}.csv"
        file = find_file(raw_dir, *(name + end for end in _PACKED))
        rows = _numbers(file, columns, header=None)
        first = rows if first is None else first
        if len(rows) != len(first):
            raise DataError.at(
                file,
                f"{len(first):,} lines, as many as shared_features",
                f"{len(rows):,}",
            )
        parts.append(rows)
    table = pd.concat(parts, axis=1)
    table[["user", "item"]] += 1
    table.loc[table["watch"] == 0, "rating"] = table["rating"].where(
        table["rating"] != 0
    )
    return _checked(table, file)


def _table(raw_dir: Path, split: str) -> pd.DataFrame:
    """A split with all columns in one file."""
    file = find_file(raw_dir, *(f"{split}.csv{end}" for end in _PACKED))
    columns = [column for part in _PARTS.values() for column in part]
    return _checked(_numbers(file, columns, header=0), file)


def _numbers(
    file: Path, columns: Sequence[str], header: int | None
) -> pd.DataFrame:
    """The columns of a file, floats."""
    content = read_packed(file)
    expected = f"numbers in the columns {', '.join(columns)}"
    with reading(file, expected, DataError):
        table = pd.read_csv(BytesIO(content), header=header, dtype="float64")
    names = [str(column) for column in table.columns]
    if header is None and len(names) == len(columns):
        table.columns = pd.Index(columns)
    elif names != list(columns):
        raise DataError.at(file, expected, f"the columns {', '.join(names)}")
    return table


def _checked(table: pd.DataFrame, file: Path) -> pd.DataFrame:
    """The rows, if they are what they should be, with integer ids."""
    ids = table[["user", "item"]].to_numpy()
    watched = (table["watch"] == 1).to_numpy()
    ratings = table["rating"].to_numpy()
    rated = np.isin(ratings, np.arange(1, _MOST_STARS + 1))
    right = (ids >= 1).all(axis=1) & (ids == np.floor(ids)).all(axis=1)
    right &= watched | (table["watch"] == 0).to_numpy()
    right &= np.where(watched, rated, np.isnan(ratings))
    if not right.all():
        place = int(np.argmin(right))
        raise DataError.at(
            file,
            "ids, watch 0 or 1, and a rating from 1 to 5 where it is 1 alone",
            f"{table.iloc[place].to_dict()} in row {place + 1}",
        )
    return table.astype({"user": "int64", "item": "int64"})
