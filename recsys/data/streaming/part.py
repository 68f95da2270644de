from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
from pyarrow import parquet

from recsys.data.columns import check_columns
from recsys.data.formats.suffix import suffix_of
from recsys.data.formats.table import check_distinct
from recsys.data.streaming.spilled_csv import GROUP_ROWS
from recsys.data.streaming.spilled_csv import spill_csv
from recsys.errors import DataError
from recsys.errors.reading import reading


@dataclass(frozen=True)
class Part:
    """A file of a split, whose row groups are read one by one.

    Attributes:
        file: The file of the user's, which errors name.
        stored: A Parquet file with its rows.
        metadata: The footer of that.
        schema: Arrow types that the columns are cast to, `None` for those
            they have.
    """

    file: Path
    stored: Path
    metadata: parquet.FileMetaData
    schema: pa.Schema | None = None

    @classmethod
    def of(
        cls,
        file: Path,
        columns: Sequence[str],
        spill: Path,
        group_rows: int = GROUP_ROWS,
        keep_others: bool = False,
    ) -> Self:
        """Looks at a file.

        Args:
            file: A Parquet file, or a text file of fields.
            columns: Names of the wanted columns.
            spill: Where to write a text file as Parquet.
            group_rows: Most rows of a row group of that.
            keep_others: Whether to write the other columns as well.

        Raises:
            DataError: The file is not what its suffix says, or lacks a column.
            OSError: There is no room for what is written.
        """
        if suffix_of(file) != ".parquet":
            schema = spill_csv(file, columns, spill, group_rows, keep_others)
            return cls(file, spill, parquet.read_metadata(spill), schema)
        with reading(file, "a Parquet file", DataError):
            with parquet.ParquetFile(file) as opened:
                names = opened.schema_arrow.names
                if keep_others:
                    check_distinct(names, file)
                check_columns(names, columns, file)
            return cls(file, file, opened.metadata)

    @property
    def types(self) -> pa.Schema:
        """The `pyarrow.Schema` of the columns that can be read."""
        return self.schema or self.metadata.schema.to_arrow_schema()

    @property
    def is_text(self) -> bool:
        """True if it is a text file."""
        return self.stored != self.file

    @property
    def group_sizes(self) -> list[int]:
        """Number of rows of each row group."""
        groups = range(self.metadata.num_row_groups)
        return [self.metadata.row_group(group).num_rows for group in groups]

    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        """Reads columns of a row group into a `pyarrow.Table`."""
        with (
            reading(self.file, "a Parquet file", DataError),
            parquet.ParquetFile(self.stored, metadata=self.metadata) as opened,
        ):
            table = opened.read_row_group(
                group, columns=list(columns), use_threads=False
            ).select(list(columns))
            table.validate(full=True)  # Texts are UTF-8.
            if self.schema is None:
                return table
            types = [self.schema.field(name) for name in columns]
            return table.cast(pa.schema(types))
