import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from recsys.data.formats.separator import SEPARATORS
from recsys.data.formats.separator import detected_separator
from recsys.data.formats.text_type import TextType
from recsys.errors import DataError
from recsys.reading import reading
from recsys.reading import while_it_fits
from recsys.shown import shown

# A handler of such rows would not be called for what is no UTF-8.
_UNEQUAL_ROW = re.compile(
    r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL
)


def read_csv(path: Path, separator: str | None = None) -> Any:
    """Reads a text file, each column with the first type that loses nothing.

    The types are integer, float, truth value and text. An empty field is
    missing.

    Args:
        path: UTF-8 file with one header line, packed if it ends in `.gz`.
        separator: What stands between two fields; found out unless given.

    Returns:
        A `pyarrow.Table`.

    Raises:
        DataError: The file is not such a file, or has rows of unequal length.
    """
    batches = csv_batches(path, separator)
    held = while_it_fits(batches, _size, path, DataError)
    table = pa.Table.from_batches(held)
    return pa.table(
        [_typed(texts) for texts in table.columns], names=table.column_names
    )


def csv_batches(path: Path, separator: str | None = None) -> Iterator[Any]:
    """Reads a text file a few rows at a time, all columns as texts.

    Args:
        path: As in `read_csv`.
        separator: As in `read_csv`.

    Yields:
        `pyarrow.RecordBatch` of texts, null where missing; the first one has
        no rows.

    Raises:
        DataError: The file is not such a file, or has rows of unequal length.
    """
    # With more than one thread, bad rows come without their number.
    options = csv.ReadOptions(use_threads=False)
    separator = separator or detected_separator(path)
    parsing = csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    (name,) = (name for name in SEPARATORS if SEPARATORS[name] == separator)
    expected = f"a {name}-separated UTF-8 file with a header line"
    with reading(path, expected, DataError):
        try:
            with csv.open_csv(path, options, parsing) as file:
                names = file.schema.names
            converting = csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
            )
            with csv.open_csv(path, options, parsing, converting) as file:
                nothing = [pa.array([], pa.string())] * len(names)
                yield pa.record_batch(nothing, schema=file.schema)
                yield from file
        except pa.ArrowException as error:
            if found := _UNEQUAL_ROW.search(str(error)):
                raise _unequal_row(path, *found.groups()) from error
            raise


def _size(batch: Any) -> int:
    return batch.nbytes


def _unequal_row(
    path: Path, row: str, expected: str, received: str, text: str
) -> DataError:
    return DataError.at(
        path,
        f"{expected} fields",
        f"{received} in {shown(text)}",
        row=int(row) - 1,  # Its count includes the header.
    )


def _typed(texts: Any) -> Any:
    column = TextType()
    column.add(texts)
    return texts.cast(column.type)
