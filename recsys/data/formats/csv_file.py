import re
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import compute
from pyarrow import csv

from recsys.data.columns import check_columns
from recsys.data.formats.exact_values import cast_or_none
from recsys.data.formats.separator import SEPARATORS
from recsys.data.formats.separator import detected_separator
from recsys.errors import DataError
from recsys.errors.reading import reading
from recsys.errors.reading import while_it_fits
from recsys.errors.shown import shown

_WHOLE_FLOAT_TEXTS = r"^-?\d+\.0+(\|-?\d+\.0+)*$"


class TextType:
    """Finds the type of a column's texts, integer or string, part by part.

    Integers are texts that an integer is written back as. All others are
    strings, `007`, `7.0`, `1e5` and `true` among them. The division into parts
    does not matter: the type is that of all of them.

    Example:
    >>> column = TextType()
    >>> column.add(pa.array(["1", "2", None]))
    >>> column.type
    DataType(int64)
    >>> column.add(pa.array(["0.5"]))
    >>> column.type
    DataType(string)
    """

    def __init__(self) -> None:
        self._integers = self._whole_floats = True

    def add(self, texts: pa.Array) -> None:
        """Looks at further texts.

        Args:
            texts: Arrow array of texts, null where missing.
        """
        if self._integers:
            integers = cast_or_none(texts, pa.int64())
            self._integers = integers is not None and integers.cast(
                pa.string()
            ).equals(texts)
        if self._whole_floats:
            matches = compute.match_substring_regex(texts, _WHOLE_FLOAT_TEXTS)
            self._whole_floats = compute.all(matches, min_count=0).as_py()

    @property
    def type(self) -> pa.DataType:
        """The Arrow type; the texts of all parts can be cast to it."""
        return pa.int64() if self._integers else pa.string()

    @property
    def whole_floats(self) -> bool:
        """True if all are integers written as floats, `5.0`, or lists of them.

        A program whose integers cannot be missing writes them so.
        """
        return self._whole_floats and not self._integers


_WHOLE_FLOATS = {b"written_as": b"whole floats"}
# A handler of such rows would not be called for what is no UTF-8.
_UNEQUAL_ROW = re.compile(
    r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL
)


def read_csv(
    path: Path,
    separator: str | None = None,
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Reads a text file, columns as integers where nothing is lost by it.

    All others are texts (`TextType`). An empty field is missing.

    Args:
        path: UTF-8 file with one header line, packed if it ends in `.gz`.
        separator: What stands between two fields; found out unless given.
        columns: Names of columns, to read no others; all unless given.
        names: Names of the columns of a file without a header line, whose
            first line is data then. Defaults to `None`, for those of the
            header.

    Returns:
        A `pyarrow.Table`; `field_of` says what its fields tell.

    Raises:
        DataError: The file is not such a file, has rows of unequal length, or
            lacks a column.
    """
    batches = csv_batches(path, separator, names, columns=columns)
    held = while_it_fits(batches, _size, path, DataError)
    table = pa.Table.from_batches(held)
    fields = []
    for name, texts in zip(table.column_names, table.columns, strict=True):
        text_type = TextType()
        text_type.add(texts)
        fields.append(field_of(name, text_type))
    return pa.table(
        [
            texts.cast(field.type)
            for texts, field in zip(table.columns, fields, strict=True)
        ],
        pa.schema(fields),
    )


def field_of(name: str, text_type: TextType) -> pa.Field:
    """Returns what is known of a column of a text file, a `pyarrow.Field`.

    Args:
        name: Its name.
        text_type: What has been seen of all its texts.
    """
    mark = _WHOLE_FLOATS if text_type.whole_floats else None
    return pa.field(name, text_type.type, metadata=mark)


def has_whole_floats(field: pa.Field) -> bool:
    """Returns whether all values of a column of a text file are like `5.0`.

    Args:
        field: As `field_of` returns it, or another one.
    """
    return (field.metadata or {}).items() >= _WHOLE_FLOATS.items()


def csv_batches(
    path: Path,
    separator: str | None = None,
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Reads a text file a few rows at a time, all columns as texts.

    Args:
        path: As in `read_csv`.
        separator: As in `read_csv`.
        names: As in `read_csv`.
        columns: As in `read_csv`.

    Yields:
        `pyarrow.RecordBatch` of texts, null where missing; the first one has
        no rows.

    Raises:
        DataError: The file is not such a file, has rows of unequal length, or
            lacks a column.
    """
    # With more than one thread, bad rows come without their number.
    options = csv.ReadOptions(use_threads=False, column_names=names)
    width = None if names is None else len(names)
    separator = separator or detected_separator(path, width)
    parsing = csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    (name,) = (name for name in SEPARATORS if SEPARATORS[name] == separator)
    line = "" if names else " with a header line"
    expected = f"a {name}-separated UTF-8 file{line}"
    with reading(path, expected, DataError):
        try:
            with csv.open_csv(path, options, parsing) as file:
                header = file.schema.names
            if columns is not None:
                check_columns(header, columns, path)
            converting = csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                include_columns=columns,
            )
            with csv.open_csv(path, options, parsing, converting) as file:
                nothing = [pa.array([], pa.string())] * len(file.schema)
                yield pa.record_batch(nothing, schema=file.schema)
                yield from file
        except pa.ArrowException as error:
            if unequal := _UNEQUAL_ROW.search(str(error)):
                raise _unequal_row(path, names, *unequal.groups()) from error
            raise


def _size(batch: pa.RecordBatch) -> int:
    return batch.nbytes


def _unequal_row(
    path: Path,
    names: Sequence[str] | None,
    row: str,
    expected: str,
    received: str,
    text: str,
) -> DataError:
    fields = (
        f"{expected} fields"
        if names is None
        else (
            f"{expected} fields, one for each of the names {shown(list(names))}"
        )
    )
    return DataError.at(
        path,
        fields,
        f"{received} in {shown(text)}",
        # Its count includes the header.
        row=int(row) - (names is None),
    )
