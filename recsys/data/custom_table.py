import logging
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from rich.progress import Progress

from recsys.data.columns import check_columns
from recsys.data.dataset import Dataset
from recsys.data.formats.arrow_table import read_arrow
from recsys.data.formats.separator import named_separator
from recsys.data.formats.table import check_distinct
from recsys.data.formats.table import to_frame
from recsys.data.from_table import cut
from recsys.data.from_table import is_by_time
from recsys.data.from_table import row_order
from recsys.data.from_table import time_ranges
from recsys.data.from_table import with_times
from recsys.data.joined_tables import check_same_columns
from recsys.data.joined_tables import joined_tables
from recsys.data.joined_tables import times_by_file
from recsys.data.named_columns import named_columns
from recsys.data.schema import Schema
from recsys.data.source_files import source_files
from recsys.data.whole_floats import warn_of_whole_floats
from recsys.errors import DataError
from recsys.features import FEATURES
from recsys.reading import naming
from recsys.reading import read_text
from recsys.tasks import TASKS

_log = logging.getLogger(__name__)

# The kinds that have an option of their own.
_KINDS = {
    "ids": "id",
    "numbers": "number",
    "binary": "binary",
    "regression": "regression",
    "multiclass": "multiclass",
}


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
    schema: str | None = None,
    group: str | None = None,
    weight: str | None = None,
    time: str | None = None,
    time_format: str | None = None,
    separator: str | None = None,
    validation_share: float = 0.15,
    test_share: float = 0.15,
    split: str | None = None,
) -> Dataset:
    """Prepares a table of one's own, in one file or split already.

    The columns are told by type, each by its name or by a pattern such as
    `categorical_*`, or all of them by a file like `dataset.json`, which knows
    every kind of feature and task with its options. What is not told is left
    out. So are files, of which several make one split where all have the same
    columns.

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
        schema: JSON file in `raw_dir` with the content of a `dataset.json`.
        group: Column that says which rows belong together, such as a user's:
            an id feature or one beside the features.
        weight: Column with how much each row counts in losses and metrics,
            which patterns do not take.
        time: Column with when each row was, which patterns do not take:
            numbers, dates, or texts in ISO 8601. The data set names it, unless
            it is a feature of `schema` without being its time.
        time_format: What a time looks like in a text that is not in ISO 8601,
            in the directives of `strptime`, such as `%d/%m/%Y %H:%M`.
        separator: What separates the fields of a text file, of any suffix:
            comma, tab, semicolon or pipe. Found out unless given.
        validation_share: Share of the training rows that are for validation
            where there is no file for it.
        test_share: The same for the test.
        split: "time" to take these shares off the end of the training rows
            in the order of their times, "random" to draw them. By time where
            there is one, unless given.

    Returns:
        The data set.

    Raises:
        DataError: A file, a column or a value is missing or wrong.
        ValueError: A share is outside its bounds, or the format of the times
            or the separator is none, or a split by time has no time, or a
            column is told beside `schema`.

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
    named_files = [file for found in files.values() for file in found]
    read = {
        file: read_arrow(file, character)
        for file in progress.track(named_files, description="Reading files")
    }
    for file, table in read.items():
        check_distinct(table.column_names, file)
    file, table = next(iter(read.items()))
    told = {
        "ids": ids,
        "numbers": numbers,
        "binary": binary,
        "regression": regression,
        "multiclass": multiclass,
        "exclude": [name for name in exclude if name not in (time, weight)],
    }
    if schema is None:
        name = raw_dir.resolve().name
        columns = [
            name for name in table.column_names if name not in (time, weight)
        ]
        described = _described(name, columns, told, group, weight, file)
    else:
        roles = {"group": [group], "weight": [weight]}
        told |= {role: [c for c in roles[role] if c] for role in roles}
        described = _read_description(raw_dir / schema, told)
    described = _with_time(described, time)
    time = described.time if time is None else time
    with naming(raw_dir / schema if schema and split == "time" else None):
        by_time = is_by_time(split, time)
    for found in files.values():
        check_same_columns({file: read[file].column_names for file in found})
    tables = _frames(read, described, time)
    times = times_by_file(tables, time, time_format)
    splits = {
        name: joined_tables(
            {
                file: with_times(tables[file], described, times.get(file))
                for file in found
            },
            described.columns,
        )
        for name, found in files.items()
    }
    if times:
        times = {
            name: pd.concat(map(times.get, found), ignore_index=True)
            for name, found in files.items()
        }
    ranges = {name: (part.min(), part.max()) for name, part in times.items()}
    _warn_of_later_rows(ranges)
    shares = {"validation": validation_share, "test": test_share}
    missing = {name: shares[name] for name in shares if name not in files}
    if missing:
        trained = times.get("train")
        order = row_order(
            len(splits["train"]), trained if by_time else None, seed
        )
        taken = cut(splits["train"].iloc[order], missing, file)
        ranges |= time_ranges(taken, order, trained)
        splits |= taken
    return Dataset(described, splits, ranges)


def _frames(
    read: Mapping[Path, Any], schema: Schema, time: str | None
) -> dict[Path, pd.DataFrame]:
    """The columns of files that are used, and no others."""
    used = list(dict.fromkeys([*schema.columns, *([time] if time else [])]))
    frames = {}
    for file, table in read.items():
        check_columns(table.column_names, used, file)
        warn_of_whole_floats(table.schema, schema.columns, file)
        frames[file] = to_frame(table.select(used), file)
    return frames


def _described(
    name: str,
    columns: Sequence[str],
    told: Mapping[str, Sequence[str]],
    group: str | None,
    weight: str | None,
    file: object,
) -> Schema:
    """The schema of what the options tell of the columns."""
    kinds = named_columns(
        columns,
        {kind: told[option] for option, kind in _KINDS.items()},
        file,
        told["exclude"],
    )
    return Schema(
        name,
        {name: kind for name, kind in kinds.items() if kind in FEATURES},
        {name: kind for name, kind in kinds.items() if kind in TASKS},
        group,
        weight,
    )


def _read_description(file: Path, told: Mapping[str, Sequence[str]]) -> Schema:
    """The schema that a file holds, which has to say all."""
    if given := [option for option, names in told.items() if names]:
        raise ValueError(
            "`schema` tells what all columns mean, and must come without "
            f"{', '.join(told)}. Received: schema={str(file)!r} and {given[0]}"
        )
    if not file.is_file():
        raise DataError.at(file, "a file", "none of that name")
    schema = Schema.from_json(read_text(file, "JSON", DataError), file)
    if schema.holds_images:
        raise DataError.at(file, "features of a table", "an image")
    return schema


def _with_time(schema: Schema, time: str | None) -> Schema:
    """The schema with the time that is given beside it.

    A feature that the schema does not call its time is cut by, no more.
    """
    if schema.time not in (None, time):
        if time is not None:
            raise ValueError(
                f"`time` must be that of the schema, {schema.time!r}, where it "
                f"has one. Received: time={time!r}"
            )
        return schema
    return schema if time in schema.features else replace(schema, time=time)


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
