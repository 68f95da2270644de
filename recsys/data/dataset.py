from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace
from pathlib import Path

import pandas as pd

from recsys.atomic import replacing
from recsys.data.columns import as_strings
from recsys.data.columns import parse
from recsys.data.error import DataError
from recsys.data.schema import Schema
from recsys.data.table import SUFFIXES
from recsys.data.table import read_table
from recsys.data.table import write_table

SPLITS = ("train", "validation", "test")
SCHEMA_FILE = "dataset.json"


@dataclass(frozen=True)
class Dataset:
    """A data set in three splits, every value checked.

    On disk it is a folder with `train`, `validation` and `test` as Parquet or
    CSV files and a `dataset.json` that says what their columns mean.

    Args:
        schema: What the columns mean.
        splits: A table each for `"train"`, `"validation"` and `"test"`, as
            `recsys.data.columns.parse` returns it.

    Example:
    >>> frame = pd.DataFrame({"user": [1, 2], "watch": [1.0, 0.0]})
    >>> schema = Schema("films", {"user": "id"}, {"watch": "binary"})
    >>> dataset = Dataset(schema, dict.fromkeys(SPLITS, frame))
    >>> dataset.split("train").shape
    (2, 2)
    """

    schema: Schema
    splits: Mapping[str, pd.DataFrame]

    def split(self, name: str) -> pd.DataFrame:
        """Returns one split: the features, then the labels, in schema order.

        Ids are integers or strings (`recsys.data.columns.parse` says when),
        numbers and labels are `float64` with NaN where missing.

        Args:
            name: `"train"`, `"validation"` or `"test"`.

        Raises:
            DataError: There is no such split.
        """
        if name not in self.splits:
            raise DataError.at(
                self.schema.name, f"one of the splits {SPLITS}", repr(name)
            )
        return self.splits[name]

    def with_train_rows(self, count: int | None) -> "Dataset":
        """Returns the data set with a sample of its training split.

        Args:
            count: How many rows to draw, always the same ones; all of them
                with `None`, or where there are no more.
        """
        train = self.split("train")
        if count is None or count >= len(train):
            return self
        sample = train.sample(count, random_state=0)
        return replace(self, splits={**self.splits, "train": sample})

    @classmethod
    def read(cls, folder: str | Path) -> "Dataset":
        """Reads and checks a data folder.

        An id column has one type in all splits: strings as soon as one split
        holds a string, integers otherwise.

        Args:
            folder: The data folder. Columns that `dataset.json` does not name
                are ignored.

        Raises:
            DataError: A file, a column or a value is missing or wrong.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise DataError.at(folder, "a data folder", "no folder there")
        schema = _read_schema(folder / SCHEMA_FILE)
        columns = schema.features | schema.tasks
        splits = {}
        for name in SPLITS:
            file = _split_file(folder, name)
            splits[name] = parse_split(read_table(file), columns, file)
        for column, kind in schema.features.items():
            if kind == "id":
                _unify_ids(splits, column)
        return cls(schema, splits)

    def write(self, folder: str | Path) -> None:
        """Writes the data folder, Parquet splits, as a whole or not at all.

        Args:
            folder: A new or empty folder.

        Raises:
            DataError: Something else is there.
        """
        check_vacant(folder)
        with replacing(Path(folder)) as unfinished:
            unfinished.mkdir()
            for name in SPLITS:
                write_table(self.splits[name], unfinished / f"{name}.parquet")
            text = self.schema.to_json()
            (unfinished / SCHEMA_FILE).write_text(text, encoding="utf-8")


def parse_split(
    table: pd.DataFrame, columns: Mapping[str, str], file: object
) -> pd.DataFrame:
    """Parses a table as `recsys.data.columns.parse`; it must have a row."""
    if table.empty:
        raise DataError.at(file, "at least one row", "no rows")
    return parse(table, columns, file)


def check_vacant(folder: str | Path) -> None:
    """Raises DataError unless the folder is empty or does not exist."""
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError.at(
            folder,
            "a new or empty folder",
            "a folder with files in it" if folder.is_dir() else "a file",
        )


def _read_schema(file: Path) -> Schema:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError.at(file, "a file", "none of that name") from None
    except UnicodeDecodeError as error:
        raise DataError.at(file, "UTF-8 text", str(error)) from None
    return Schema.from_json(text, file)


def _split_file(folder: Path, split: str) -> Path:
    names = [split + suffix for suffix in SUFFIXES]
    found = [name for name in names if (folder / name).exists()]
    if len(found) != 1:
        raise DataError.at(
            folder, f"one of the files {names}", f"{found or 'none of them'}"
        )
    return folder / found[0]


def _unify_ids(splits: dict[str, pd.DataFrame], column: str) -> None:
    columns = [frame[column] for frame in splits.values()]
    integers = [pd.api.types.is_integer_dtype(ids) for ids in columns]
    if any(integers) and not all(integers):
        for frame in splits.values():
            frame[column] = as_strings(frame[column])
