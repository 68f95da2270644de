from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pandas as pd
import pyarrow as pa
from rich.progress import Progress

from recsys.data.column_names import FIRST_ROW
from recsys.data.column_names import check_header
from recsys.data.column_names import named_columns
from recsys.data.column_names import names_without_header
from recsys.data.columns import check_columns
from recsys.data.dataset import Dataset
from recsys.data.formats.arrow_table import read_arrow
from recsys.data.formats.separator import named_separator
from recsys.data.formats.table import check_distinct
from recsys.data.formats.table import to_frame
from recsys.data.from_table import is_by_time
from recsys.data.negative_sampling import with_negatives
from recsys.data.schema import Schema
from recsys.data.split_files import source_files
from recsys.data.table_splits import check_same_columns
from recsys.data.table_splits import dataset_from_files
from recsys.data.table_splits import times_by_file
from recsys.data.whole_floats import warn_of_whole_floats
from recsys.errors import DataError
from recsys.errors.reading import naming
from recsys.errors.reading import read_text
from recsys.features import FEATURES
from recsys.files.json_files import JsonMapping
from recsys.tasks import TASKS

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
    header: str | None = FIRST_ROW,
    columns: Sequence[str] = (),
    validation_share: float = 0.15,
    test_share: float = 0.15,
    split: str | None = None,
    user: str | None = None,
    item: str | None = None,
    item_features: Sequence[str] = (),
    scenario: str | None = None,
    position: str | None = None,
    propensity: str | None = None,
    positive: str | None = None,
    negatives: int = 0,
    negative_sampling: str = "uniform",
    evaluation_negatives: int = 0,
) -> Dataset:
    """Prepares your own table, in one file or already split.

    Columns are assigned by type, by name or by a pattern such as
    `categorical_*`, or all of them by a file like `dataset.json`, which has
    every kind of feature and task with its options. Other columns are left
    out. Several files with the same columns can make one split.

    Args:
        raw_dir: Folder with the files; its name becomes that of the data set.
        seed: Seed of random splits.
        progress: Shows how many files are read.
        train: Files with the training rows: Parquet, CSV (`.csv`) or, with
            tabs, `.tsv`, compressed or not (`.csv.gz`). A split without a file
            of its own is taken from these rows.
        validation: Files with the validation rows, if any.
        test: Files with the test rows, if any.
        ids: Features compared only for equality.
        numbers: Numeric features.
        binary: Tasks with labels 0 and 1.
        regression: Tasks with numeric labels.
        multiclass: Tasks with classes 0, 1, 2, ... as labels.
        exclude: Columns to leave out, even if a pattern matches them.
        schema: JSON file in `raw_dir` with the content of a `dataset.json`.
        group: Column that groups rows, such as a user's: an id feature, or a
            column beside the features.
        weight: Column with the weight of each row in losses and metrics.
            Patterns do not match it.
        time: Column with the time of each row: numbers, dates, or texts in ISO
            8601. Patterns do not match it. The data set records it, unless it
            is a feature of `schema` without being its time.
        time_format: Format of time texts not in ISO 8601, in the directives of
            `strptime`, such as `%d/%m/%Y %H:%M`.
        separator: Separator of a text file with any suffix: comma, tab,
            semicolon or pipe. Default: detected.
        header: Content of a text file's first row: the names of its columns
            (first-row), or data (none).
        columns: Names of all columns, in order, of files without a header.
        validation_share: Share of the training rows to use for validation, if
            there is no file for it.
        test_share: The same for the test.
        split: "time" takes these shares from the end of the training rows,
            ordered by time; "random" draws them. Default: time if there is
            one.
        user: Id feature of the user to recommend to. Default: the group if
            that is an id feature, else the id feature called user.
        item: Id feature of the item to recommend. Default: the one called
            item.
        item_features: Further features of the item, such as its genres.
            Default: those that never differ between two training rows of the
            same item.
        scenario: Id feature of the scenario, such as the country of a row.
        position: Column with the place in which a row was shown, from 1.
        propensity: Column with the probability that the log shows a row.
        positive: Binary task without a column in the files: 1 in all of their
            rows, 0 in the negatives.
        negatives: Rows to add for each training row with a 1 in a binary
            task: its user and time with an item that the user has in no
            split, and 0 in all binary tasks.
        negative_sampling: Distribution of the negatives' items: uniform, or
            popularity (in proportion to their positive training rows).
        evaluation_negatives: The same as negatives, for the validation and
            test splits. Default: none.

    Returns:
        The data set.

    Raises:
        DataError: A file, a column or a value is missing or wrong.
        ValueError: A share is outside its bounds, or the format of the times
            or the separator is none, or a split by time has no time, or a
            column is declared beside `schema`.

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
    named = {"train": train, "validation": validation, "test": test}
    kinds = {
        "ids": ids,
        "numbers": numbers,
        "binary": [*binary, *([] if positive is None else [positive])],
        "regression": regression,
        "multiclass": multiclass,
    }
    roles = {
        "group": group,
        "weight": weight,
        "user": user,
        "item": item,
        "item_features": item_features or None,
        "scenario": scenario,
        "position": position,
        "propensity": propensity,
    }
    if positive is not None and not negatives:
        raise ValueError(
            "`positive` must come with negatives=1 or more; otherwise all "
            f"labels are 1. Received: positive={positive!r}"
        )
    character = None if separator is None else named_separator(separator)
    names = names_without_header(header, columns)
    files = source_files(raw_dir, named)
    if "train" not in files:
        raise ValueError(f"`train` must name a file. Received: train={train!r}")
    described = None
    hidden = (time, weight, position, propensity)
    if schema is not None:
        columns_of = {**kinds, "binary": binary, "exclude": exclude, **roles}
        described = _read_description(raw_dir / schema, columns_of)
        wanted = [*described.columns, time]
    else:
        wanted = [*chain(*kinds.values()), group, *hidden]
    read = {}
    named_files = [file for paths in files.values() for file in paths]
    for file in progress.track(named_files, description="Reading files"):
        if names is None:
            there = [name for name in wanted if name not in (None, positive)]
            check_header(file, character, there)
        read[file] = read_arrow(file, character, names=names)
        check_distinct(read[file].column_names, file)
        if positive in read[file].column_names:
            raise DataError.at(
                file, f"no column {positive!r}, the task `positive`", "one"
            )
    file, table = next(iter(read.items()))
    if described is None:
        options = {
            **kinds,
            "exclude": [name for name in exclude if name not in hidden],
        }
        there = [
            *(n for n in table.column_names if n not in hidden),
            *([] if positive is None else [positive]),
        ]
        name = raw_dir.resolve().name
        described = _described(name, there, options, roles, file)
    if positive not in (None, *described.tasks):
        raise ValueError(
            "`positive` must be a task of the schema. Received: "
            f"positive={positive!r}"
        )
    described = _with_time(described, time)
    time = described.time if time is None else time
    with naming(raw_dir / schema if schema and split == "time" else None):
        by_time = is_by_time(split, time)
    for paths in files.values():
        check_same_columns({file: read[file].column_names for file in paths})
    frames = _frames(read, described, time, positive)
    times = times_by_file(frames, time, time_format)
    shares = {"validation": validation_share, "test": test_share}
    dataset = dataset_from_files(
        described, files, frames, times, by_time, shares, seed
    )
    if not negatives and not evaluation_negatives:
        return dataset
    return with_negatives(
        dataset, negatives, negative_sampling, evaluation_negatives, seed
    )


def _frames(
    read: Mapping[Path, pa.Table],
    schema: Schema,
    time: str | None,
    positive: str | None,
) -> dict[Path, pd.DataFrame]:
    """The columns of files that are used, and those of the task `positive`."""
    used = list(dict.fromkeys([*schema.columns, *([time] if time else [])]))
    used = [name for name in used if name != positive]
    frames = {}
    for file, table in read.items():
        check_columns(table.column_names, used, file)
        warn_of_whole_floats(table.schema, schema.columns, file)
        rows = to_frame(table.select(used), file)
        frames[file] = (
            rows if positive is None else rows.assign(**{positive: 1})
        )
    return frames


def _described(
    name: str,
    columns: Sequence[str],
    columns_of: Mapping[str, Sequence[str]],
    roles: JsonMapping,
    file: object,
) -> Schema:
    """The schema of what the options tell of the columns."""
    kinds = named_columns(
        columns,
        {kind: columns_of[option] for option, kind in _KINDS.items()},
        file,
        columns_of["exclude"],
    )
    return Schema(
        name,
        {name: kind for name, kind in kinds.items() if kind in FEATURES},
        {name: kind for name, kind in kinds.items() if kind in TASKS},
        **roles,
    )


def _read_description(file: Path, columns_of: JsonMapping) -> Schema:
    """The schema that a file holds, which has to say all."""
    if options := [option for option, names in columns_of.items() if names]:
        raise ValueError(
            "`schema` declares all columns, and must come without "
            f"{', '.join(columns_of)}. "
            f"Received: schema={str(file)!r} and {options[0]}"
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
                f"`time` must be {schema.time!r}, as in the schema, or left "
                f"out. Received: time={time!r}"
            )
        return schema
    return schema if time in schema.features else replace(schema, time=time)
