from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from recsys.data.columns import parse
from recsys.data.formats.table import to_frame
from recsys.data.split_files import split_files
from recsys.data.streaming.part import Part
from recsys.data.streaming.spilled_csv import GROUP_ROWS
from recsys.errors import DataError
from recsys.errors import FileRows
from recsys.kind import Kind


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
    their columns can be found without reading them.

    The rows of all units, in their order, are those that `Dataset.read` reads,
    checked alike; but what form a column has, only its unit decides: ids may
    be integers in one unit and texts in another.

    Attributes:
        units: All units, in the order of the rows.
        num_rows: How many rows there are.

    Args:
        folder: The data folder.
        split: Name of the split.
        columns: Names of the wanted columns with what they mean, in order.
        scratch: An existing folder to write text files to as Parquet; files
            in it begin with the name of the split.
        group_rows: Most rows of a unit of a text file.

    Raises:
        DataError: A file or a column is missing, a file is not what its suffix
            says, or there is no row.

    Example:
    >>> import tempfile
    >>> from recsys.features import Number
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "train.csv").write_text("age,user\n31,a\n18,b\n45,c\n")
    24
    >>> stream = SplitStream(
    ...     folder, "train", {"age": Number()}, folder, group_rows=2
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
        scratch: Path,
        group_rows: int = GROUP_ROWS,
    ) -> None:
        self.columns = dict(columns)
        self._parts = [
            Part.of(
                file,
                list(self.columns),
                scratch / f"{split}-{index}.parquet",
                group_rows,
            )
            for index, file in enumerate(split_files(folder, split))
        ]
        self.units = [
            unit
            for index, part in enumerate(self._parts)
            for unit in _units(index, part.group_sizes)
        ]
        self.num_rows = sum(unit.num_rows for unit in self.units)
        if not self.units:
            first, *more = self._parts
            place = first.file.parent if more else first.file
            raise DataError.at(place, "at least one row", "no rows")

    def read(self, unit: Unit) -> pd.DataFrame:
        """Reads and checks the rows of a unit, numbered from 0.

        Raises:
            DataError: A value is not of its column's kind.
        """
        return self._read(unit, self.columns)

    def column(self, name: str) -> Iterator["pd.Series[Any]"]:
        """Reads and checks one column, unit by unit, and no other.

        Args:
            name: Name of the column.

        Yields:
            The column of each unit, in the order of the rows.

        Raises:
            DataError: A value is not of the column's kind.
        """
        for unit in self.units:
            yield self._read(unit, {name: self.columns[name]})[name]

    def _read(self, unit: Unit, columns: Mapping[str, Kind]) -> pd.DataFrame:
        part = self._parts[unit.part]
        table = part.read(unit.group, list(columns))
        rows = FileRows(part.file, unit.first_row)
        return parse(to_frame(table, part.file), columns, rows)


def _units(part: int, sizes: list[int]) -> Iterator[Unit]:
    first_row = 0
    for group, size in enumerate(sizes):
        if size:
            yield Unit(part, group, first_row, size)
        first_row += size
