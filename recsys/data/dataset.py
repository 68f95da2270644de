from collections.abc import Collection
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

import pandas as pd

from recsys.column_values import as_strings
from recsys.data.columns import parse
from recsys.data.formats.table import SUFFIXES
from recsys.data.formats.table import read_table
from recsys.data.formats.table import write_table
from recsys.data.labels import check_labelled
from recsys.data.split_dataset import SPLITS
from recsys.data.split_dataset import SplitDataset
from recsys.data.split_dataset import read_schema
from recsys.data.split_summary import SplitSummary
from recsys.data.split_summary import Unseen
from recsys.errors import DataError
from recsys.kind import Kind


@dataclass(frozen=True)
class Dataset(SplitDataset[pd.DataFrame]):
    """A data set of tables in three splits, every value checked.

    On disk it is a folder with `train`, `validation` and `test` as Parquet or
    CSV files and a `dataset.json` that says what their columns mean. The
    columns of a split are the features, then the labels, in schema order: ids
    are integers or strings (`recsys.data.columns.parse` says when), numbers
    and labels are `float64` with NaN where missing.

    Args:
        schema: What the columns mean.
        splits: A table each for `"train"`, `"validation"` and `"test"`, as
            `recsys.data.columns.parse` returns it.
        times: By split, the first and the last time of its rows, where that
            is known. It is not written.

    Example:
    >>> from recsys.data.schema import Schema
    >>> frame = pd.DataFrame({"user": [1, 2], "watch": [1.0, 0.0]})
    >>> schema = Schema("films", {"user": "id"}, {"watch": "binary"})
    >>> dataset = Dataset(schema, dict.fromkeys(SPLITS, frame))
    >>> dataset.split("train").shape
    (2, 2)
    """

    times: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: str | Path) -> "Dataset":
        """Reads and checks a data folder.

        An id column has one type in all splits: strings as soon as one split
        holds a string, integers otherwise.

        Args:
            folder: The data folder. Columns that `dataset.json` does not name
                are ignored.

        Raises:
            DataError: A file, a column or a value is missing or wrong, or a
                split has no label at all.
        """
        schema = read_schema(folder)
        columns = schema.columns
        splits = {}
        for name in SPLITS:
            file = _split_file(Path(folder), name)
            splits[name] = parse_split(read_table(file), columns, file)
            check_labelled(splits[name], schema.tasks, file)
        unify_ids(splits.values(), schema.features)
        return cls(schema, splits)

    def summary(self) -> dict[str, SplitSummary]:
        """Returns what there is to know about each split before training."""
        train = self.split("train")
        ids = [
            name
            for name, kind in self.schema.features.items()
            if kind.type == "id"
        ]
        return {
            name: SplitSummary(
                len(self.split(name)),
                self.times.get(name),
                {}
                if name == "train"
                else {
                    column: Unseen.of(self.split(name)[column], train[column])
                    for column in ids
                },
            )
            for name in SPLITS
        }

    def _write_split(
        self, split: pd.DataFrame, folder: Path, name: str
    ) -> None:
        write_table(split, folder / f"{name}.parquet")


def parse_split(
    table: pd.DataFrame, columns: Mapping[str, Kind], file: object
) -> pd.DataFrame:
    """Parses a table as `recsys.data.columns.parse`; it must have a row."""
    split = parse(table, columns, file)
    if split.empty:
        raise DataError.at(file, "at least one row", "no rows")
    return split


def _split_file(folder: Path, split: str) -> Path:
    names = [split + suffix for suffix in SUFFIXES]
    found = [name for name in names if (folder / name).exists()]
    if len(found) != 1:
        raise DataError.at(
            folder, f"one of the files {names}", f"{found or 'none of them'}"
        )
    return folder / found[0]


def unify_ids(
    frames: Collection[pd.DataFrame], columns: Mapping[str, Kind]
) -> None:
    """Makes each id column strings in all tables if it is so in any.

    Args:
        frames: Parsed tables, which are changed.
        columns: Names of their columns with their types.
    """
    for column in (name for name, kind in columns.items() if kind.type == "id"):
        integers = [
            pd.api.types.is_integer_dtype(frame[column]) for frame in frames
        ]
        if any(integers) and not all(integers):
            for frame in frames:
                frame[column] = as_strings(frame[column])
