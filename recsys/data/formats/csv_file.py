import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from recsys.column_values import LARGEST_EXACT
from recsys.data.formats.separator import SEPARATORS
from recsys.data.formats.separator import detected_separator
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
                table = pa.Table.from_batches(
                    while_it_fits(file, _size, path, DataError), file.schema
                )
        except pa.ArrowException as error:
            if found := _UNEQUAL_ROW.search(str(error)):
                raise _unequal_row(path, *found.groups()) from error
            raise
        return pa.table([_typed(text) for text in table.columns], names=names)


def cast_or_none(column: Any, kind: Any) -> Any:
    """Returns an Arrow column as another type, `None` where it does not fit."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        return None


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


def _typed(text: Any) -> Any:
    integers = cast_or_none(text, pa.int64())
    if integers is not None:
        return integers if integers.cast(pa.string()).equals(text) else text
    floats = cast_or_none(text, pa.float64())
    if floats is not None:
        sizes = np.abs(floats.to_numpy())
        rounded = (sizes > LARGEST_EXACT) & (sizes < np.inf)
        return text if rounded.any() else floats
    booleans = cast_or_none(text, pa.bool_())
    return text if booleans is None else booleans
