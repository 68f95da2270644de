import gzip
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from recsys.data.formats.csv_file import read_csv
from recsys.data.formats.text_type import cast_or_none
from recsys.errors import DataError
from recsys.features.list_values import as_texts
from recsys.features.list_values import packed
from recsys.reading import check_fits
from recsys.reading import reading

SUFFIXES = (".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
_LEAST_BYTES = 8  # of a value in memory, as a number or in a text
_INTEGERS = {pa.int64(): pd.Int64Dtype()}


def read_table(path: str | Path, separator: str | None = None) -> pd.DataFrame:
    """Reads a Parquet file or a text file of fields into a table.

    The fields of a text file (UTF-8, one header line) are separated by commas,
    or else by tabs (always in a `.tsv` file), semicolons or pipes. An empty
    field is missing. A column is integers when all its fields are written as
    integers are, without leading zeros: `007` and whatever else would not
    survive as a number stays text. Integers stay integers when some are
    missing (`Int64`).

    Args:
        path: File ending in `.parquet`, `.csv`, `.csv.gz`, `.tsv` or
            `.tsv.gz`.
        separator: What stands between two fields of a text file, which may
            have any suffix then. Defaults to `None`, to find it out.

    Returns:
        The table, rows numbered from 0.

    Raises:
        DataError: The file is missing, is not what its suffix says, has rows
            of unequal length or two columns of one name.

    Example:
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "ids.csv.gz")
    >>> write_table(pd.DataFrame({"user": ["007", "8"], "item": [3, 4]}), path)
    >>> read_table(path)
      user  item
    0  007     3
    1    8     4
    """
    path = Path(path)
    suffix = path.suffix if separator else suffix_of(path)
    if not path.exists():
        raise DataError.at(path, "a file", "none of that name")
    with reading(path, f"a {suffix} file", DataError):
        if suffix == ".parquet":
            table = _read_parquet(path)
        else:
            table = read_csv(path, separator)
        return to_frame(table, path)


def to_frame(
    table: Any, path: object, pack: Collection[str] = ()
) -> pd.DataFrame:
    """Returns an Arrow table as pandas; integers stay integers.

    Args:
        table: A `pyarrow.Table`.
        path: Where it comes from, for the error message.
        pack: Names of columns that, where they have lists of integers, are to
            be as `packed` returns them.

    Raises:
        DataError: Two columns have one name.
    """
    names = table.column_names
    check_distinct(names, path)
    return pd.DataFrame(
        {name: _to_pandas(table[name], name in pack) for name in names},
        index=pd.RangeIndex(table.num_rows),
    )


def check_distinct(names: list[str], path: object) -> None:
    """Raises DataError if two columns have one name."""
    if twice := [name for name in names if names.count(name) > 1]:
        raise DataError.at(
            path, "columns of different names", f"two columns {twice[0]!r}"
        )


def write_table(frame: pd.DataFrame, path: str | Path) -> None:
    """Writes a table as Parquet or as text, without its index.

    The same table gives the same bytes. In a text, the values of a list stand
    between `|`.

    Args:
        frame: The table.
        path: File ending in `.parquet`, `.csv` or `.tsv`, or in one of the
            latter two and `.gz`.

    Raises:
        DataError: The path has another suffix, or a value in a list of a text
            file has a `|` in it.
    """
    path = Path(path)
    suffix = suffix_of(path)
    if suffix == ".parquet":
        frame.to_parquet(path, index=False)
        return
    text = as_csv(frame, suffix, path)
    if suffix.endswith(".gz"):
        # A time stamp would differ from run to run.
        text = gzip.compress(text, compresslevel=6, mtime=0)
    path.write_bytes(text)


def as_csv(
    frame: pd.DataFrame, suffix: str, file: object, header: bool = True
) -> bytes:
    """Returns a table as a text of fields, lists with `|` between values.

    Args:
        frame: The table.
        suffix: That of the file; with `.tsv` in it, tabs separate fields.
        file: The file, for the error message.
        header: Whether the names of the columns come first.

    Raises:
        DataError: A value in a list has a `|` in it.
    """
    separator = "\t" if ".tsv" in suffix else ","
    columns = {name: as_texts(frame[name], file) for name in frame}
    table = pd.DataFrame(columns)
    return table.to_csv(index=False, sep=separator, header=header).encode()


def suffix_of(path: Path) -> str:
    """Returns which of `SUFFIXES` a file has.

    Raises:
        DataError: None of them.
    """
    for suffix in SUFFIXES:
        if path.name.endswith(suffix):
            return suffix
    raise DataError.at(
        path, f"a file name ending in one of {SUFFIXES}", repr(path.name)
    )


def _read_parquet(path: Path) -> Any:
    with reading(path, "a Parquet file", DataError):
        if path.is_file():
            held = parquet.read_metadata(path)
            # Runs of one value are shorter in the file.
            size = held.num_rows * held.num_columns * _LEAST_BYTES
            check_fits(size, path, DataError, f"{held.num_rows:,} rows")
        table = parquet.read_table(path, partitioning=None)
        table.validate(full=True)  # Texts are UTF-8.
        return table


def _to_pandas(column: Any, pack: bool) -> "pd.Series[Any]":
    if pack and (lists := packed(column)) is not None:
        return lists
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if pa.types.is_integer(column.type):
        integers = cast_or_none(column, pa.int64())
        column = column.cast(pa.string()) if integers is None else integers
    mapper = _INTEGERS.get if column.null_count else None
    return column.to_pandas(types_mapper=mapper)
