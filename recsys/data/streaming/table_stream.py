from collections.abc import Iterable
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyarrow import types

from recsys.data.columns import check_columns
from recsys.data.formats.common_type import as_type
from recsys.data.formats.common_type import common_type
from recsys.data.split_files import files_of
from recsys.data.streaming.part import Part
from recsys.data.streaming.spilled_csv import GROUP_ROWS
from recsys.errors import FileRows


class TableStream:
    r"""A table with all its columns, which is read a few rows at a time.

    A piece has the types of its part, so that what other parts hold never
    changes a value. To be written as one table, all pieces are brought to one
    schema by `alike`.

    Attributes:
        parts: The files.
        schema: That `pyarrow.Schema`: texts where the parts are text files;
            otherwise the type that a column has in all parts, or
            `common_type` of several. Only integers that are missing nowhere
            are not nullable in it.

    Args:
        path: A file as `read_table` takes it, or a folder of such parts.
        columns: Names of columns that have to be there.
        scratch: An existing folder to write text files to as Parquet.
        piece_rows: Most rows of a piece. No piece has rows of two row groups
            of a Parquet file, and one of these is read at a time.

    Raises:
        DataError: A file or a column is missing, a file is not what its suffix
            says, or parts have different columns.
        OSError: There is no room for the Parquet files.

    Example:
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "log.csv").write_text("age,user\n31,8\n18,007\n45,9\n")
    26
    >>> stream = TableStream(folder / "log.csv", ["user"], folder, piece_rows=2)
    >>> for piece, _ in stream.pieces():
    ...     print(piece.to_pydict(), stream.alike(piece)["age"].to_pylist())
    {'age': [31, 18], 'user': ['8', '007']} ['31', '18']
    {'age': [45], 'user': ['9']} ['45']
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
        self.parts = parts

    def pieces(self) -> Iterator[tuple[pa.Table, FileRows]]:
        """Yields the rows, at least one piece, which has none if there is none.

        Yields:
            A `pyarrow.Table`, and where it comes from.

        Raises:
            DataError: A file is broken.
        """
        num_rows = 0
        for part in self.parts:
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
            first = self.parts[0]
            yield first.types.empty_table(), FileRows(first.file, 0)

    def alike(self, piece: pa.Table) -> pa.Table:
        """Returns a piece with the columns of `schema`."""
        columns = [
            as_type(piece[field.name], field.type) for field in self.schema
        ]
        return pa.table(columns, self.schema)


def _field(parts: list[Part], name: str) -> pa.Field:
    if parts[0].is_text:
        return pa.field(name, pa.string())
    kind = common_type(
        [(part.types.field(name).type, _chunks(part, name)) for part in parts]
    )
    whole = types.is_integer(kind) and not any(
        _has_null(p, name) for p in parts
    )
    return pa.field(name, kind, nullable=not whole)


def _chunks(part: Part, name: str) -> Iterator[pa.Array]:
    for group in range(len(part.group_sizes)):
        yield from part.read(group, [name])[name].chunks


def _has_null(part: Part, name: str) -> bool:
    """Returns whether a column of integers has nulls, or does not say so."""
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
