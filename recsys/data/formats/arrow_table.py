from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from recsys.data.columns import check_columns
from recsys.data.formats.common_type import as_type
from recsys.data.formats.common_type import common_type
from recsys.data.formats.csv_file import read_csv
from recsys.data.formats.suffix import suffix_of
from recsys.data.split_files import files_of
from recsys.errors import DataError
from recsys.errors.reading import check_fits
from recsys.errors.reading import reading

_LEAST_BYTES = 8  # of a value in memory, as a number or in a text


def read_arrow(
    path: Path,
    separator: str | None = None,
    columns: Iterable[str] | None = None,
    names: Sequence[str] | None = None,
) -> pa.Table:
    """Reads a file as `read_table` does, into a `pyarrow.Table`.

    Args:
        path: The file, or a folder of parts.
        separator: As in `read_table`.
        columns: Names of columns, to read no others; all unless given.
        names: As in `read_table`.

    Raises:
        DataError: The file is missing, is not what its suffix says, has rows
            of unequal length or lacks a column.
    """
    suffix = path.suffix if separator else suffix_of(path)
    wanted = None if columns is None else list(columns)
    parts = []
    for file in files_of(path):
        if suffix == ".parquet" and names is not None:
            expected = "a text file, as only these have no header"
            raise DataError.at(file, expected, "a Parquet file")
        with reading(file, f"a {suffix} file", DataError):
            if suffix == ".parquet":
                parts.append(_read_parquet(file, wanted))
            else:
                parts.append(read_csv(file, separator, names, columns=wanted))
    return parts[0] if len(parts) == 1 else _joined(parts, path)


def _read_parquet(path: Path, columns: list[str] | None) -> pa.Table:
    with (
        reading(path, "a Parquet file", DataError),
        parquet.ParquetFile(path) as file,
    ):
        if columns is not None:
            check_columns(file.schema_arrow.names, columns, path)
        held = file.metadata
        # Runs of one value are shorter in the file.
        width = held.num_columns if columns is None else len(columns)
        size = held.num_rows * width * _LEAST_BYTES
        check_fits(size, path, DataError, f"{held.num_rows:,} rows")
        table = file.read(columns)
        table.validate(full=True)  # Texts are UTF-8.
        return table if columns is None else table.select(columns)


def _joined(parts: list[pa.Table], path: Path) -> pa.Table:
    names = parts[0].column_names
    for part in parts:
        check_columns(part.column_names, names, path)
    columns = {}
    for name in names:
        held = [part[name] for part in parts]
        kind = common_type([(column.type, column.chunks) for column in held])
        alike = [as_type(column, kind) for column in held]
        chunks = [chunk for column in alike for chunk in column.chunks]
        columns[name] = pa.chunked_array(chunks, kind)
    return pa.table(columns)
