from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import overload
from weakref import finalize

import numpy as np
import pandas as pd

from recsys.columns.kind import Kind
from recsys.data.columns import parse
from recsys.data.dataset import unify
from recsys.data.formats.exact_values import to_series
from recsys.data.formats.table import to_frame
from recsys.data.item_columns import ItemColumns
from recsys.data.item_columns import column_names
from recsys.data.row_time import RowTime
from recsys.data.split_files import split_files
from recsys.data.streaming.part import Part
from recsys.data.streaming.spilled_csv import GROUP_ROWS
from recsys.data.times import check_alike
from recsys.data.whole_floats import warn_of_whole_floats
from recsys.errors import DataError
from recsys.errors import FileRows


@dataclass(frozen=True)
class Unit:
    """Rows that are read at once: a row group of a part.

    Attributes:
        part: Index of the part in its split.
        group: Index of the row group in its part.
        first_row: How many rows of the part are before it.
        num_rows: How many rows it has, at least one.
    """

    part: int
    group: int
    first_row: int
    num_rows: int


class SplitStream:
    r"""A split of a data folder that is read unit by unit.

    A unit is a row group of a Parquet file. Text files are written once as
    Parquet, all columns as texts, since neither their middle nor the types of
    their columns can be found without reading them; these files are in the
    system's folder for temporary ones (`TMPDIR`) as long as the stream is.

    The rows of all units, in their order, are those that `Dataset.read` reads,
    checked alike; but what form a column has, only its unit decides: ids may
    be integers in one unit and texts in another.

    Attributes:
        units: All units, in the order of the rows.
        place: The file, or the folder of parts.

    Args:
        folder: The data folder.
        split: Name of the split.
        columns: Names of the wanted columns with what they mean, in order.
        group_rows: Most rows of a unit of a text file.
        items: What has columns that the files lack. Nothing unless given.

    Raises:
        DataError: A file or a column is missing, a file is not what its suffix
            says, or there is no row.
        OSError: There is no room for the Parquet files.

    Example:
    >>> import tempfile
    >>> from recsys.features import Number
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "train.csv").write_text("age,user\n31,a\n18,b\n45,c\n")
    24
    >>> stream = SplitStream(
    ...     folder, "train", {"age": Number()}, group_rows=2
    ... )
    >>> [unit.num_rows for unit in stream.units]
    [2, 1]
    >>> stream.read(stream.units[1])
        age
    0  45.0
    """

    def __init__(
        self,
        folder: str | Path,
        split: str,
        columns: Mapping[str, Kind],
        group_rows: int = GROUP_ROWS,
        items: ItemColumns | None = None,
    ) -> None:
        self.columns = dict(columns)
        self._items = items
        self._names: dict[Path, list[str]] = {}
        files = split_files(folder, split)
        self.place = files[0].parent if len(files) > 1 else files[0]
        scratch = mkdtemp(prefix="recsys-")
        finalize(self, rmtree, scratch, ignore_errors=True)
        self._parts = [
            Part.of(
                file,
                list(self._own(self.columns, file)),
                Path(scratch, f"{index}.parquet"),
                group_rows,
            )
            for index, file in enumerate(files)
        ]
        for part in self._parts:
            warn_of_whole_floats(part.types, self.columns, part.file)
        self.units = [
            unit
            for index, part in enumerate(self._parts)
            for unit in _units(index, part.group_sizes)
        ]
        self._firsts: dict[tuple[int, str], pd.Series] = {}
        self._of: tuple[SplitStream, ...] = ()
        if not self.units:
            raise DataError.at(self.place, "at least one row", "no rows")

    def followed_by(self, other: "SplitStream") -> "SplitStream":
        """Returns the rows of this split, then those of another one.

        Args:
            other: A split with the same columns.
        """
        joined = copy(self)
        joined._of = (self, other)  # Their scratch files are still needed.
        joined._parts = [*self._parts, *other._parts]
        moved = len(self._parts)
        joined.units = [
            *self.units,
            *(replace(unit, part=unit.part + moved) for unit in other.units),
        ]
        joined._firsts = {}
        return joined

    @property
    def sizes(self) -> list[int]:
        """Number of rows of each unit."""
        return [unit.num_rows for unit in self.units]

    def __len__(self) -> int:
        return sum(self.sizes)

    @overload
    def __getitem__(self, columns: str, /) -> pd.Series: ...

    @overload
    def __getitem__(self, columns: list[str], /) -> pd.DataFrame: ...

    def __getitem__(
        self, columns: str | list[str], /
    ) -> pd.Series | pd.DataFrame:
        """Reads and checks a whole column, or several, each in one form.

        Raises:
            DataError: A value is not of its column's kind.
        """
        if isinstance(columns, str):
            return self[[columns]][columns]
        files = map(self.file, self.units)
        parts = [*zip(files, self.frames(columns), strict=True)]
        return _joined(parts, {name: self.columns[name] for name in columns})

    def read(self, unit: Unit) -> pd.DataFrame:
        """Reads and checks the rows of a unit, numbered from 0.

        Raises:
            DataError: A value is not of its column's kind.
        """
        return self._read(unit, self.columns)

    def file(self, unit: Unit) -> Path:
        """Returns the file that the rows of a unit are in."""
        return self._parts[unit.part].file

    def sample(self, n: int, *, random_state: int) -> pd.DataFrame:
        """Reads the rows that `DataFrame.sample` draws from all of them.

        Args:
            n: How many.
            random_state: Seed of the draw.
        """
        drawn = pd.Series(np.arange(len(self))).sample(
            n, random_state=random_state
        )
        rows = np.sort(drawn.to_numpy())
        ends = np.cumsum(self.sizes)
        parts = [
            (
                self.file(unit),
                self.read(unit).iloc[within - (end - unit.num_rows)],
            )
            for unit, end, within in zip(
                self.units,
                ends,
                np.split(rows, np.searchsorted(rows, ends)[:-1]),
                strict=True,
            )
            if len(within)
        ]
        return _joined(parts, self.columns).set_axis(rows).loc[drawn]

    def frames(
        self, names: Sequence[str] | None = None
    ) -> Iterator[pd.DataFrame]:
        """Reads and checks the rows of each unit, in their order.

        Args:
            names: Names of the columns to read, and no other; all unless
                given.

        Raises:
            DataError: A value is not of its column's kind.
        """
        chosen = self.columns if names is None else names
        columns = {name: self.columns[name] for name in chosen}
        return (self._read(unit, columns) for unit in self.units)

    def _read(self, unit: Unit, columns: Mapping[str, Kind]) -> pd.DataFrame:
        part = self._parts[unit.part]
        in_file = self._own(columns, part.file)
        table = part.read(unit.group, list(in_file))
        rows = FileRows(part.file, unit.first_row)
        pack = [name for name, kind in in_file.items() if kind.packs_lists]
        frame = to_frame(table, part.file, pack)
        for name, kind in in_file.items():
            if unit.first_row and isinstance(kind, RowTime):
                check_alike(self._first(unit.part, name), frame[name], rows)
        parsed = parse(frame, in_file, rows)
        if self._items is None:
            return parsed
        return self._items.join(parsed, columns, rows)

    def _own(
        self, columns: Mapping[str, Kind], file: Path
    ) -> Mapping[str, Kind]:
        """Those columns that are read from the file, not from `items`."""
        if self._items is None or not self._items.names:
            return columns
        if file not in self._names:
            self._names[file] = column_names(file)
        return self._items.read_from(columns, self._names[file])

    def _first(self, part: int, name: str) -> pd.Series:
        """The first value of a column in a part, as the part has it."""
        if (part, name) not in self._firsts:
            first = next(unit for unit in self.units if unit.part == part)
            table = self._parts[part].read(first.group, [name])[:1]
            self._firsts[part, name] = to_series(table[name])
        return self._firsts[part, name]


def _joined(
    parts: Sequence[tuple[object, pd.DataFrame]], columns: Mapping[str, Kind]
) -> pd.DataFrame:
    """The rows of parts one after the other, numbered from 0."""
    unify(parts, columns)
    return pd.concat([frame for _, frame in parts], ignore_index=True)


def _units(part: int, sizes: list[int]) -> Iterator[Unit]:
    first_row = 0
    for group, size in enumerate(sizes):
        if size:
            yield Unit(part, group, first_row, size)
        first_row += size
