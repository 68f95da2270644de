"""The splits of a data set as tables of DuckDB, filled part by part."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from recsys.data.load import AnyDataset
from recsys.data.schema import Schema
from recsys.data.split_dataset import SPLITS
from recsys.data.streaming.split_stream import SplitStream
from recsys.data.times import parse_times
from recsys.features.id_list import IdList
from recsys.features.list_values import lengths_of
from recsys.features.list_values import values_of
from recsys.features.scratch_database import ScratchDatabase

# Names of DuckDB differ by more than their case: columns get numbers.
TIME = "time"
_LISTS = "lists"
# Of the content of a list, null if it is empty.
_HASH = "case when len({0}) > 0 then hash({0}::varchar[]) end as {0}"
_CONTENT = "a copy of the data"


class SplitTables:
    """Features, labels and times of all splits, on disk where they are large.

    Each split is a table of its name. An id is an integer of 64 bits or a
    text, the same in all splits, a number or a label a double; missing values
    are null. Of a list or a vector the table has a hash of its content, null
    if it is empty; the ids of lists are in a table of their own.

    Args:
        database: An empty database.
        schema: What the columns mean.
    """

    def __init__(self, database: ScratchDatabase, schema: Schema) -> None:
        self.schema = schema
        self.has_dates = False
        names = [] if schema.holds_images else [*schema.features]
        names += schema.tasks
        self._numbers = {name: f"c{i}" for i, name in enumerate(names)}
        self._database = database
        self._types: dict[tuple[str, str], str] = {}

    @classmethod
    @contextmanager
    def of(cls, dataset: AnyDataset) -> Iterator["SplitTables"]:
        """Copies a data set for as long as it is looked at.

        Args:
            dataset: The data set. Of one that is streamed, a part at a time
                is in memory.

        Raises:
            DataError: A value is not of its column's kind.
            RunError: There is no room for the copy.
        """
        database = ScratchDatabase("recsys-description-")
        try:
            tables = cls(database, dataset.schema)
            for split in SPLITS:
                for part in _parts(dataset, split, tables.columns):
                    tables._add(split, part)
            tables._unify()
            yield tables
        finally:
            database.close()

    @property
    def columns(self) -> list[str]:
        """Names of the features, of images none, and of the tasks."""
        return list(self._numbers)

    @property
    def features(self) -> list[str]:
        """Names of the features, of images none."""
        return [c for c in self.columns if c not in self.schema.tasks]

    def column(self, name: str) -> str:
        """Returns what a feature or a task is called in the tables."""
        return self._numbers[name]

    def is_number(self, name: str) -> bool:
        """Returns whether a column has numbers, and no ids or lists."""
        return self._types["train", self.column(name)] == "DOUBLE"

    def is_list(self, name: str) -> bool:
        """Returns whether a column has lists or vectors."""
        return self._types["train", self.column(name)] == _LISTS

    def ids_of(self, name: str, split: str) -> str | None:
        """Returns a subquery of the ids of a split in its column `value`.

        Args:
            name: A feature.
            split: A split.

        Returns:
            All that are not missing, of lists those in them; `None` for what
            has no ids of its own.
        """
        number = self.column(name)
        if isinstance(self.schema.features[name], IdList):
            return f"(select value from {split}_{number})"
        if self.is_number(name) or self.is_list(name):
            return None
        return (
            f"(select {number} as value from {split} "
            f"where {number} is not null)"
        )

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Returns what a query of the tables returns."""
        with self._database.running(_CONTENT):
            return self._database.connection.execute(query).fetchall()

    def row(self, query: str) -> tuple[Any, ...]:
        """Returns the first row of what a query returns."""
        return self.rows(query)[0]

    def _add(self, split: str, frame: pd.DataFrame) -> None:
        arrays = {}
        for name, number in self._numbers.items():
            column = frame[name]
            if _holds_lists(column):
                kind = self.schema.features[name]
                if isinstance(kind, IdList):
                    self._add_ids(f"{split}_{number}", kind.occurring(column))
                arrays[number] = _lists(column)
            else:
                arrays[number] = pa.array(column, from_pandas=True)
        if self.schema.time is not None:
            arrays[TIME] = pa.array(self._seconds(frame[self.schema.time]))
        self._insert(split, arrays)

    def _add_ids(self, table: str, ids: pd.Series) -> None:
        self._insert(table, {"value": pa.array(ids, from_pandas=True)})

    def _insert(self, table: str, arrays: Mapping[str, pa.Array]) -> None:
        """Adds rows to a table; ids are texts from the first text on."""
        part = pa.table(
            {name: _of_one_type(array) for name, array in arrays.items()}
        )
        kinds = {name: _kind(array.type) for name, array in arrays.items()}
        select = ", ".join(
            _HASH.format(name) if kind == _LISTS else name
            for name, kind in kinds.items()
        )
        with self._database.running(_CONTENT):
            connection = self._database.connection
            connection.register("part", part)
            connection.execute(
                f"create table if not exists {table} as "
                f"select {select} from part limit 0"
            )
            for name, kind in kinds.items():
                was = self._types.setdefault((table, name), kind)
                if kind == "VARCHAR" != was:
                    self._make_texts(table, name)
            connection.execute(f"insert into {table} select {select} from part")
            connection.unregister("part")

    def _make_texts(self, table: str, column: str) -> None:
        self._database.connection.execute(
            f"alter table {table} alter {column} type varchar"
        )
        self._types[table, column] = "VARCHAR"

    def _unify(self) -> None:
        """Makes ids texts in all splits if they are in one."""
        texts = {key for key, kind in self._types.items() if kind == "VARCHAR"}
        with self._database.running(_CONTENT):
            for table, column in texts:
                _, _, number = table.partition("_")
                for split in SPLITS:
                    sibling = f"{split}_{number}" if number else split
                    if self._types.get((sibling, column)) == "BIGINT":
                        self._make_texts(sibling, column)

    def _seconds(self, times: pd.Series) -> np.ndarray:
        """Times as doubles: numbers as they are, dates as seconds."""
        times = parse_times(times, self.schema.place)
        self.has_dates = pd.api.types.is_datetime64_any_dtype(times)
        if not self.has_dates:
            return times.to_numpy("float64")
        zoned = getattr(times.dtype, "tz", None) is not None
        plain = times.dt.tz_localize(None) if zoned else times
        since = plain - pd.Timestamp(0)
        return (since / pd.Timedelta(1, "s")).to_numpy("float64")


def _parts(
    dataset: AnyDataset, split: str, names: Iterable[str]
) -> Iterator[pd.DataFrame]:
    rows = dataset.split(split)
    wanted = [*names]
    if dataset.schema.time is not None and dataset.schema.time not in wanted:
        wanted.append(dataset.schema.time)
    if isinstance(rows, SplitStream):
        yield from rows.frames(wanted)
    else:
        yield rows[wanted]


def _holds_lists(column: pd.Series) -> bool:
    if isinstance(column.dtype, pd.ArrowDtype):  # Lists, packed.
        return True
    known = column.dropna() if column.dtype == object else column[:0]
    return bool(len(known)) and isinstance(known.iloc[0], np.ndarray)


def _lists(column: pd.Series) -> pa.Array:
    """A column of lists as Arrow has it."""
    ends = np.cumsum(lengths_of(column), dtype=np.int64)
    values = pa.array(values_of(column), from_pandas=True)
    return pa.LargeListArray.from_arrays(np.append(0, ends), values)


def _kind(kind: pa.DataType) -> str:
    """What a column of Arrow becomes."""
    if pa.types.is_large_list(kind):
        return _LISTS
    if pa.types.is_floating(kind):
        return "DOUBLE"
    whole = pa.types.is_integer(kind) or pa.types.is_null(kind)
    return "BIGINT" if whole else "VARCHAR"


def _of_one_type(array: pa.Array) -> pa.Array:
    types = {"DOUBLE": pa.float64(), "BIGINT": pa.int64()}
    kind = _kind(array.type)
    return array if kind == _LISTS else array.cast(types.get(kind, pa.string()))
