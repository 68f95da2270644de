"""A DuckDB database in a folder of temporary files, of bounded memory."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from recsys.errors import RunError

if TYPE_CHECKING:
    pass

# Of the engine alone: what it holds beyond this is in its folder.
MEMORY_LIMIT = "512MB"
# Each takes a share of the memory, however many cores there are.
_THREADS = 2


class ScratchDatabase:
    """A database of its own, whose tables go to disk where they are large.

    Attributes:
        folder: Folder of its files, removed by `close`.
        connection: The connection of DuckDB.

    Args:
        prefix: How the name of the folder begins.

    Example:
    >>> database = ScratchDatabase("recsys-example-")
    >>> with database.running("two numbers"):
    ...     database.connection.sql("select 1 + 1").fetchall()
    [(2,)]
    >>> database.close()
    """

    def __init__(self, prefix: str) -> None:
        import duckdb

        self._scratch = tempfile.TemporaryDirectory(prefix=prefix)
        self.folder = Path(self._scratch.name)
        self.connection: duckdb.DuckDBPyConnection = duckdb.connect(
            config={
                "memory_limit": MEMORY_LIMIT,
                "temp_directory": str(self.folder),
                "threads": _THREADS,
                "preserve_insertion_order": False,
            },
        )

    @contextmanager
    def running(self, what: str) -> Iterator[None]:
        """Within, a lack of room becomes an error that says what to do.

        Args:
            what: What there must be room for, for the error message.

        Raises:
            RunError: DuckDB has no room.
        """
        import duckdb

        try:
            yield
        except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
            raise RunError(
                f"{self.folder}: expected a folder with room for {what}. "
                f"Received: {error}"
            ) from error

    def close(self) -> None:
        """Removes the folder."""
        self.connection.close()
        self._scratch.cleanup()
