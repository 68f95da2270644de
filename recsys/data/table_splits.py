"""The splits of a data set whose rows are in several files."""

import logging
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from recsys.data.dataset import Dataset
from recsys.data.from_table import cut
from recsys.data.from_table import row_order
from recsys.data.from_table import time_ranges
from recsys.data.from_table import with_times
from recsys.data.joined_tables import joined_tables
from recsys.data.schema import Schema
from recsys.data.times import shown_times

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
