import csv
import gzip
from collections.abc import Collection
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from recsys.data.formats.arrow_table import read_arrow
from recsys.data.formats.exact_values import to_series
from recsys.data.formats.suffix import suffix_of
from recsys.errors import DataError
from recsys.errors.reading import reading
from recsys.errors.shown import shown
from recsys.features.list_values import as_texts

if TYPE_CHECKING:
    import pyarrow as pa


def read_table(
    path: str | Path,
    separator: str | None = None,
    names: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Reads a Parquet file or a text file of fields into a table.

    The fields of a text file (UTF-8, one header line) are separated by commas,
    or else by tabs (always in a `.tsv` file), semicolons or pipes. An empty
    field is missing. A column is integers when each of its fields is what an
    integer is written as, and texts otherwise, also where these say numbers:
    as ids, `7.0`, `007` and `1e5` are what they are, and numbers are made of
    them by who needs some. Integers are never rounded, in Parquet neither:
    they are `Int64` when some are missing, and texts when one is too large.

    Args:
        path: File ending in `.parquet`, `.csv`, `.csv.gz`, `.tsv` or
            `.tsv.gz`.
        separator: What stands between two fields of a text file, which may
            have any suffix then. Defaults to `None`, to find it out.
        names: Names of the columns of a text file without a header line.
            Defaults to `None`, for those of the header.

    Returns:
        The table, rows numbered from 0.

    Raises:
        DataError: The file is missing, is not what its suffix says, has rows
            of unequal length or two columns of one name, or is Parquet
            although there are `names`.

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
    return to_frame(read_arrow(path, separator, names=names), path)


def to_frame(
    table: "pa.Table", path: object, pack: Collection[str] = ()
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
    with reading(path, "a table", DataError):
        return pd.DataFrame(
            {name: to_series(table[name], name in pack) for name in names},
            index=pd.RangeIndex(table.num_rows),
        )


def check_distinct(names: list[str], path: object) -> None:
    """Raises DataError if two columns have one name."""
    before: set[str] = set()
    for name in names:
        if name in before:
            raise DataError.at(
                path, "columns of different names", f"two columns {shown(name)}"
            )
        before.add(name)


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
    # Python does not quote what other programs take for the end of a line.
    returns = any(
        "\r" in str(name) or _holds_returns(table[name]) for name in table
    )
    return table.to_csv(
        index=False,
        sep=separator,
        header=header,
        quoting=csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL,
    ).encode()


def _holds_returns(column: pd.Series) -> bool:
    if not isinstance(column.dtype, pd.StringDtype):
        return column.dtype == object and any("\r" in str(v) for v in column)
    return bool(column.str.contains("\r", regex=False).any())
