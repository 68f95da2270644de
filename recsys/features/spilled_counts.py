from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from recsys.features.scratch_database import ScratchDatabase

_CONTENT = "the different values of a column"
_ROWS = 1 << 17  # Values that are read back at once.
_SORTED = """
    select value, sum(n)::bigint as n
    from counts group by value order by value
"""


class SpilledCounts:
    """Counts of values that DuckDB keeps in a folder of temporary files.

    Example:
    >>> counts = SpilledCounts()
    >>> counts.add(pd.Series([7, 8, 7]).value_counts())
    >>> counts.add(pd.Series(["8", "a"]).value_counts())
    >>> [part.to_dict() for part in counts.sorted()]
    [{'7': 2, '8': 2, 'a': 1}]
    >>> counts.close()
    """

    def __init__(self) -> None:
        self._database = ScratchDatabase("recsys-counts-")
        self._holds_strings: bool | None = None  # None before the first part.

    def add(self, counts: pd.Series) -> None:
        """Adds counts, indexed by different values: integers or strings."""
        if counts.empty:
            return
        values = pa.array(counts.index)
        are_strings = _is_text(values.type)
        part = pa.table({"value": values, "n": pa.array(counts)})
        with self._database.running(_CONTENT):
            self._database.connection.register("part", part)
            if self._holds_strings is None:
                self._run("create table counts as select * from part")
                self._holds_strings = are_strings
                return
            if are_strings and not self._holds_strings:
                self._run("alter table counts alter value type varchar")
                self._holds_strings = True
            self._run("insert into counts select * from part")

    def sorted(self) -> Iterator[pd.Series]:
        """Yields the counts part by part, indexed by the values, ascending.

        Strings come in the order of their code points, as Python has it.
        """
        if self._holds_strings is None:
            return
        file = self._database.folder / "sorted.parquet"
        with self._database.running(_CONTENT):
            # A result of the engine's own would be in memory.
            self._database.connection.sql(_SORTED).write_parquet(
                str(file), row_group_size=_ROWS
            )
        with parquet.ParquetFile(file) as written:
            for batch in written.iter_batches(_ROWS):
                yield batch.to_pandas().set_index("value")["n"]

    def close(self) -> None:
        """Removes the folder."""
        self._database.close()

    def _run(self, query: str) -> None:
        self._database.connection.execute(query)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
