from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import types

from recsys.data.columns import check_columns
from recsys.data.formats.text_type import cast_or_none
from recsys.data.split_files import files_of
from recsys.data.streaming.part import Part
from recsys.data.streaming.spilled_csv import GROUP_ROWS
from recsys.errors import DataError
from recsys.errors import FileRows


class TableStream:
    r"""A table with all its columns, which is read a few rows at a time.

    A column has one type in all pieces, that which `read_table` finds. Where
    parts differ, integers become floats beside floats, and all that a text
    file can hold becomes text beside text.

    Attributes:
        schema: The `pyarrow.Schema` of all pieces. Only integers that are
            missing nowhere are not nullable in it.

    Args:
        path: A file as `read_table` takes it, or a folder of such parts.
        columns: Names of columns that have to be there.
        scratch: An existing folder to write text files to as Parquet.
        piece_rows: Most rows of a piece. No piece has rows of two row groups
            of a Parquet file, and one of these is read at a time.

    Raises:
        DataError: A file or a column is missing, a file is not what its suffix
            says, or parts have different columns.

    Example:
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "log.csv").write_text("age,user\n31,8\n18,007\n45,9\n")
    26
    >>> stream = TableStream(folder / "log.csv", ["user"], folder, piece_rows=2)
    >>> for piece, _ in stream.pieces():
    ...     print(piece.to_pydict())
    {'age': [31, 18], 'user': ['8', '007']}
    {'age': [45], 'user': ['9']}
    """

    def __init__(
        self,
        path: str | Path,
        columns: Iterable[str],
        scratch: Path,
        piece_rows: int = GROUP_ROWS,
    ) -> None:
        self._piece_rows = piece_rows
        wanted = list(columns)
        parts = [
            Part.of(
                file,
                wanted,
                scratch / f"{index}.parquet",
                piece_rows,
                keep_others=True,
            )
            for index, file in enumerate(files_of(Path(path)))
        ]
        for part in parts[1:]:
            check_columns(part.types.names, parts[0].types.names, part.file)
            check_columns(parts[0].types.names, part.types.names, path)
        fields = [_field(parts, name) for name in parts[0].types.names]
        self.schema = pa.schema(fields)
        self._parts = [replace(part, schema=self.schema) for part in parts]

    def pieces(self) -> Iterator[tuple[Any, FileRows]]:
        """Yields the rows, at least one piece, which has none if there is none.

        Yields:
            A `pyarrow.Table`, and where it comes from.

        Raises:
            DataError: A file is broken.
        """
        num_rows = 0
        for part in self._parts:
            first_row = 0
            for group, size in enumerate(part.group_sizes):
                if not size:
                    continue
                rows = part.read(group, self.schema.names)
                for start in range(0, size, self._piece_rows):
                    where = FileRows(part.file, first_row + start)
                    yield rows.slice(start, self._piece_rows), where
                first_row += size
            num_rows += first_row
        if not num_rows:
            yield self.schema.empty_table(), FileRows(self._parts[0].file, 0)


def _field(parts: list[Part], name: str) -> Any:
    kinds = {_kind(part, name) for part in parts}
    if len(kinds) > 1:
        kinds -= {pa.null()}
    if len(kinds) > 1:
        kinds = {_common(kinds, parts[0].file.parent, name)}
    (kind,) = kinds
    whole = kind == pa.int64() and not any(_has_null(p, name) for p in parts)
    return pa.field(name, kind, nullable=not whole)


def _kind(part: Part, name: str) -> Any:
    """The type of a column of a part, as `read_table` has it."""
    kind = part.types.field(name).type
    if types.is_decimal(kind):
        return pa.float64()
    if types.is_uint64(kind):
        fitting = (
            cast_or_none(part.read(group, [name])[name], pa.int64())
            for group in range(len(part.group_sizes))
        )
        fits = all(column is not None for column in fitting)
        return pa.int64() if fits else pa.string()
    return pa.int64() if types.is_integer(kind) else kind


def _common(kinds: set[Any], folder: Path, name: str) -> Any:
    """The type that holds all values of several types."""
    texts = {pa.string(), pa.large_string()}
    floats = {pa.float16(), pa.float32(), pa.float64()}
    if kinds <= {pa.int64()} | floats:
        return pa.float64()
    if kinds <= {pa.int64(), pa.bool_()} | floats | texts:
        return pa.string()
    raise DataError.at(
        folder,
        "parts with the same type of a column",
        " and ".join(sorted(map(str, kinds))),
        column=name,
    )


def _has_null(part: Part, name: str) -> bool:
    """Whether a column of integers has nulls, or does not say so."""
    groups = [part.metadata.row_group(g) for g in range(len(part.group_sizes))]
    chunks = (
        group.column(column)
        for group in groups
        for column in range(group.num_columns)
        if group.num_rows
    )
    counts = [
        chunk.statistics and chunk.statistics.null_count
        for chunk in chunks
        if chunk.path_in_schema == name
    ]
    return any(count is None or count > 0 for count in counts)
