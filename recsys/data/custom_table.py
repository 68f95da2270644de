import logging
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import Progress

from recsys.data.dataset import Dataset
from recsys.data.formats.separator import named_separator
from recsys.data.formats.table import read_table
from recsys.data.from_table import cut
from recsys.data.from_table import row_order
from recsys.data.from_table import time_ranges
from recsys.data.joined_tables import joined_tables
from recsys.data.joined_tables import joined_times
from recsys.data.named_columns import named_columns
from recsys.data.schema import Schema
from recsys.data.source_files import source_files
from recsys.features import FEATURES
from recsys.tasks import TASKS

_log = logging.getLogger(__name__)


def custom_table(
    raw_dir: Path,
    seed: int,
    progress: Progress,
    train: str | Sequence[str],
    validation: str | Sequence[str] = (),
    test: str | Sequence[str] = (),
    ids: Sequence[str] = (),
    numbers: Sequence[str] = (),
    binary: Sequence[str] = (),
    regression: Sequence[str] = (),
    multiclass: Sequence[str] = (),
    exclude: Sequence[str] = (),
    time: str | None = None,
    time_format: str | None = None,
    separator: str | None = None,
    validation_share: float = 0.15,
    test_share: float = 0.15,
) -> Dataset:
    """Prepares a table of one's own, in one file or split already.

    The columns are told by type, each by its name or by a pattern such as
    `categorical_*`. What is not told is left out. So are files, of which
    several make one split where all have the same columns.

    Args:
        raw_dir: Folder with the files, which names the data set.
        seed: Seed of the splits that are drawn.
        progress: Shows how many files are read.
        train: Files with the rows to train on: Parquet, CSV (`.csv`) or, with
            tabs, `.tsv`, packed or not (`.csv.gz`). A split without a file of
            its own is taken off its rows.
        validation: Files with the rows for validation, if there are any.
        test: Files with the rows for the test, if there are any.
        ids: Features of which only equality counts.
        numbers: Features that are numbers.
        binary: Tasks with labels 0 and 1.
        regression: Tasks with numbers as labels.
        multiclass: Tasks with classes 0, 1, 2, ... as labels.
        exclude: Columns that are neither, whatever pattern they match.
        time: Column by whose order splits are taken off the end of the
            training rows; they are drawn unless given. Numbers, dates, or
            texts in ISO 8601.
        time_format: What a time looks like in a text that is not in ISO 8601,
            in the directives of `strptime`, such as `%d/%m/%Y %H:%M`.
        separator: What separates the fields of a text file, of any suffix:
            comma, tab, semicolon or pipe. Found out unless given.
        validation_share: Share of the training rows that are for validation
            where there is no file for it.
        test_share: The same for the test.

    Returns:
        The data set.

    Raises:
        DataError: A file, a column or a value is missing or wrong.
        ValueError: A share is outside its bounds, or the format of the times
            or the separator is none.

    Example:
    >>> import tempfile
    >>> from recsys.data import write_table
    >>> folder = Path(tempfile.mkdtemp())
    >>> log = pd.DataFrame({"user": range(20), "click": [0, 1] * 10})
    >>> write_table(log, folder / "log.csv")
    >>> options = {"train": "log.csv", "ids": ["user"], "binary": ["click"]}
    >>> dataset = custom_table(folder, 0, Progress(disable=True), **options)
    >>> len(dataset.split("train"))
    14
    """
    character = None if separator is None else named_separator(separator)
    named = {"train": train, "validation": validation, "test": test}
    files = source_files(raw_dir, named)
    if "train" not in files:
        raise ValueError(f"`train` must name a file. Received: train={train!r}")
    described = [file for found in files.values() for file in found]
    read = {
        file: read_table(file, character)
        for file in progress.track(described, description="Reading files")
    }
    tables = {
        split: {file: read[file] for file in found}
        for split, found in files.items()
    }
    file, table = next(iter(tables["train"].items()))
    columns = named_columns(
        [column for column in table.columns if column != time],
        {
            "id": ids,
            "number": numbers,
            "binary": binary,
            "regression": regression,
            "multiclass": multiclass,
        },
        file,
        [name for name in exclude if name != time],
    )
    schema = Schema(
        raw_dir.resolve().name,
        {name: kind for name, kind in columns.items() if kind in FEATURES},
        {name: kind for name, kind in columns.items() if kind in TASKS},
    )
    splits = {
        split: joined_tables(parts, schema.columns)
        for split, parts in tables.items()
    }
    times = _by_split(joined_times(read, time, time_format), splits)
    ranges = {name: (part.min(), part.max()) for name, part in times.items()}
    _warn_of_later_rows(ranges)
    shares = {"validation": validation_share, "test": test_share}
    missing = {split: shares[split] for split in shares if split not in files}
    if missing:
        order = row_order(len(splits["train"]), times.get("train"), seed)
        taken = cut(splits["train"].iloc[order], missing, file)
        ranges |= time_ranges(taken, order, times.get("train"))
        splits |= taken
    return Dataset(schema, splits, ranges)


def _by_split(
    times: "pd.Series[Any] | None", splits: Mapping[str, pd.DataFrame]
) -> dict[str, "pd.Series[Any]"]:
    """Cuts the times of all rows into those of each split."""
    if times is None:
        return {}
    ends = np.cumsum([len(split) for split in splits.values()])
    return {
        name: times.iloc[end - len(splits[name]) : end].reset_index(drop=True)
        for name, end in zip(splits, ends, strict=True)
    }


def _warn_of_later_rows(ranges: Mapping[str, tuple[Any, Any]]) -> None:
    """Warns where a model would be trained on what comes after its test."""
    for split in set(ranges) - {"train"}:
        last, first = ranges["train"][1], ranges[split][0]
        if last > first:
            _log.warning(
                "The rows to train on reach to %s, those of the %s split begin "
                "before that, at %s.",
                last,
                split,
                first,
            )
