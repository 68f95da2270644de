from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from recsys.data.columns import check_columns
from recsys.data.formats.csv_file import TextType
from recsys.data.formats.csv_file import csv_batches
from recsys.data.formats.csv_file import field_of
from recsys.data.formats.table import check_distinct
from recsys.files.atomic import naming_output

GROUP_ROWS = 1 << 17


def spill_csv(
    file: Path,
    columns: Sequence[str],
    stored: Path,
    group_rows: int,
    keep_others: bool = False,
) -> Any:
    """Writes columns of a text file as Parquet, a few rows at a time.

    A packed file has no middle to begin at, and neither has one with fields of
    several lines; and what type a column has, only its last row says. The
    columns are texts in the Parquet file.

    Args:
        file: The file, as `csv_batches` takes it.
        columns: Names of the wanted columns.
        stored: Where to write.
        group_rows: Most rows of a row group, which are held at a time.
        keep_others: Whether to write the other columns as well.

    Returns:
        The `pyarrow.Schema` that the columns can be cast to, which is what
        `read_csv` finds.

    Raises:
        DataError: The file is not such a file, has rows of unequal length, or
            lacks a column.
        OSError: There is no room for the Parquet file.
    """
    batches = csv_batches(file, columns=None if keep_others else columns)
    schema = next(batches).schema
    if keep_others:
        check_distinct(schema.names, file)
        check_columns(schema.names, columns, file)
    types = {name: TextType() for name in schema.names}
    with (
        naming_output(stored),
        parquet.ParquetWriter(stored, schema) as writer,
    ):
        for group in _groups(batches, schema, group_rows):
            for name, text_type in types.items():
                text_type.add(group[name])
            writer.write_table(group, row_group_size=group_rows)
    return pa.schema(
        [field_of(name, text_type) for name, text_type in types.items()]
    )


def _groups(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, group_rows: int
) -> Iterator[pa.Table]:
    """Tables of that many rows, but for the last one."""
    held = schema.empty_table()
    for batch in batches:
        chosen = pa.Table.from_batches([batch])
        held = pa.concat_tables([held, chosen])
        while len(held) >= group_rows:
            yield held[:group_rows]
            held = held[group_rows:]
    if len(held):
        yield held
