import zlib
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from pyarrow import types

from recsys.data.formats.suffix import suffix_of
from recsys.data.formats.table import as_csv
from recsys.data.formats.written_values import text_frame
from recsys.errors import FileRows

_GZIP = 31  # As `wbits` of zlib: the largest window, in a gzip file.


@contextmanager
def table_writer(
    path: Path, schema: pa.Schema
) -> Iterator[Callable[[pa.Table], None]]:
    r"""Writes a table piece by piece, each value as it is.

    A Parquet file has the types of the schema. In a text file, texts are what
    they are, and other values as `recsys.data.formats.written_values` says;
    what is missing is an empty field.

    Args:
        path: File with one of the suffixes that `write_table` takes.
        schema: `pyarrow.Schema` of the table. Whether integers are nullable in
            it says which ones are so in pandas.

    Yields:
        A function that writes a `pyarrow.Table` of this schema; it has to be
        called at least once.

    Raises:
        DataError: The path has another suffix, or a value in a list of a text
            file has a `|` in it.

    Example:
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "ids.tsv")
    >>> table = pa.table({"user": ["a", "b"], "item": [3, 4]})
    >>> with table_writer(path, table.schema) as write:
    ...     write(table[:1])
    ...     write(table[1:])
    >>> path.read_text()
    'user\titem\na\t3\nb\t4\n'
    """
    suffix = suffix_of(path)
    if suffix == ".parquet":
        stored = _stored(schema)
        with parquet.ParquetWriter(path, stored) as writer:
            yield lambda table: writer.write_table(table.cast(stored))
        return
    rows = 0

    def write(table: pa.Table) -> None:
        nonlocal rows
        place = FileRows(path, rows)
        add(as_csv(text_frame(table), suffix, place, header=not rows))
        rows += len(table)

    with path.open("wb") as file:
        if suffix.endswith(".gz"):
            with _packing(file) as add:
                yield write
        else:
            add = file.write
            yield write


@contextmanager
def _packing(file: IO[bytes]) -> Iterator[Callable[[bytes], object]]:
    # Without a time stamp, which would differ from run to run.
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    yield lambda text: file.write(packer.compress(text))
    file.write(packer.flush())


def _stored(schema: pa.Schema) -> pa.Schema:
    """A schema with what pandas notes down of integers with missing values."""
    nullable = {
        field.name: _nullable_type(field.type)
        for field in schema
        if field.nullable and types.is_integer(field.type)
    }
    frame = pd.DataFrame(columns=[*nullable]).astype(nullable)
    noted = pa.Schema.from_pandas(frame, preserve_index=False).metadata
    return pa.schema([field.with_nullable(True) for field in schema], noted)


def _nullable_type(integers: pa.DataType) -> str:
    """Pandas's name of integers that may be missing, such as `UInt8`."""
    return str(integers).replace("int", "Int").replace("u", "U")
