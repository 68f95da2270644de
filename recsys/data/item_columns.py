"""Features of items that stand in the file `items` of a data folder."""

from collections.abc import Collection
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from pyarrow import parquet

from recsys.columns.column_values import as_strings
from recsys.columns.column_values import refuse
from recsys.columns.kind import Kind
from recsys.data.columns import check_columns
from recsys.data.columns import parse
from recsys.data.formats.arrow_table import read_arrow
from recsys.data.formats.csv_file import csv_batches
from recsys.data.formats.suffix import suffix_of
from recsys.data.formats.table import to_frame
from recsys.data.items_file import checked_ids
from recsys.data.items_file import items_file
from recsys.data.schema import Schema
from recsys.data.split_files import split_files
from recsys.data.whole_floats import warn_of_whole_floats
from recsys.errors import DataError
from recsys.errors.reading import reading


class ItemColumns:
    """Joins features from the file `items` with the rows of splits.

    A feature that a file of a split lacks and `items` has is taken from there,
    by the id of the row's item. Ids are compared by their canonical texts
    (`recsys.features.id_values`). Where a row has no item, the feature is
    missing; an item that `items` lacks is an error.

    Args:
        folder: The data folder.
        schema: Its schema.
    """

    def __init__(self, folder: str | Path, schema: Schema) -> None:
        self._item = schema.item_id
        self._features = schema.features
        self._file = None if self._item is None else items_file(folder)

    @cached_property
    def names(self) -> frozenset[str]:
        """The features that `items` has, but for the item itself."""
        if self._file is None:
            return frozenset()
        names = {*column_names(self._file)} & {*self._features}
        return frozenset(names - {self._item})

    def read_from(
        self, columns: Mapping[str, Kind], there: Collection[str]
    ) -> dict[str, Kind]:
        """Returns what to read from a file of a split, for `join`.

        Args:
            columns: The wanted columns with what they mean.
            there: Names of the columns of the file.
        """
        joined = {name for name in columns if name not in there} & self.names
        in_file = {n: kind for n, kind in columns.items() if n not in joined}
        if joined:
            in_file.setdefault(str(self._item), self._features[str(self._item)])
        return in_file

    def join(
        self, frame: pd.DataFrame, columns: Mapping[str, Kind], place: object
    ) -> pd.DataFrame:
        """Returns rows with the columns that were not read from their file.

        Args:
            frame: Parsed rows with the columns of `read_from`.
            columns: The wanted columns with what they mean.
            place: Where the rows come from, for the error message.

        Raises:
            DataError: `items` is broken, or lacks the item of a row.
        """
        joined = [name for name in columns if name not in frame]
        if joined:
            places = self._places(frame[str(self._item)], place)
            frame = frame.assign(
                **{
                    name: self._column(name)
                    .take(places)
                    .set_axis(frame.index)
                    .rename(name)
                    for name in joined
                }
            )
        return frame[list(columns)]

    @cached_property
    def _rows(self) -> "pd.Series[int]":
        """The rows of `items` by canonical texts of their ids."""
        assert self._file is not None, "it has names of columns"
        item = str(self._item)
        check_columns(column_names(self._file), [item], self._file)
        table = to_frame(read_arrow(self._file, columns=[item]), self._file)
        texts = as_strings(checked_ids(table, item, self._file)).dropna()
        return pd.Series(texts.index, pd.Index(texts, dtype=object))

    def _places(self, items: pd.Series, place: object) -> npt.NDArray[np.int64]:
        """For each item its row in `items`, -1 where it is missing."""
        places = as_strings(items).map(self._rows)
        unknown = places.isna() & items.notna()
        refuse(items, unknown, f"an item of {self._file}", place)
        return np.asarray(places.fillna(-1), np.int64)

    def _column(self, name: str) -> pd.Series:
        """A checked feature by the rows of `items`; the last is missing."""
        if name not in self._columns:
            file, kind = self._file, self._features[name]
            assert file is not None, "it has names of columns"
            table = read_arrow(file, columns=[name])
            warn_of_whole_floats(table.schema, {name: kind}, file)
            values = to_frame(table, file)[name].astype(object)
            # As objects, integers beside the missing one are not rounded.
            ended = pd.Series([*values, None], dtype=object, name=name)
            parsed = parse(ended.to_frame(), {name: kind}, file)
            self._columns[name] = parsed[name]
        return self._columns[name]

    @cached_property
    def _columns(self) -> dict[str, pd.Series]:
        return {}


def joins_items(folder: str | Path, schema: Schema) -> bool:
    """Returns whether rows of a data folder take features from `items`.

    Args:
        folder: The data folder.
        schema: Its schema.

    Raises:
        DataError: A file is missing or broken.
    """
    names = ItemColumns(folder, schema).names
    return any(
        not names <= {*column_names(file)}
        for split in ("train", "validation", "test")
        for file in (split_files(folder, split) if names else ())
    )


def column_names(file: Path) -> list[str]:
    """Returns the names of the columns of a table.

    Args:
        file: A Parquet file, or a text file of fields.

    Raises:
        DataError: The file is not what its suffix says.
    """
    if suffix_of(file) != ".parquet":
        names: list[str] = next(csv_batches(file)).schema.names
        return names
    with reading(file, "a Parquet file", DataError):
        return list(parquet.read_schema(file).names)
