"""The file `items` of a data folder, and the titles in it."""

from pathlib import Path

import pandas as pd

from recsys.data.columns import check_columns
from recsys.data.formats.suffix import SUFFIXES
from recsys.data.formats.table import read_table
from recsys.data.formats.table import write_table
from recsys.errors import DataError
from recsys.features import Id

ITEMS = "items"
TITLE = "title"


def write_items(items: pd.DataFrame, folder: Path) -> None:
    """Writes the titles of items into a data folder.

    Args:
        items: A row for each item, with its id in the column of that name,
            and its title.
        folder: The data folder.
    """
    write_table(items, folder / f"{ITEMS}.parquet")


def read_titles(source: str | Path, item: str) -> "pd.Series[str] | None":
    """Reads the titles of items from the file `items` of a data folder.

    Args:
        source: The data folder, or `"synthetic"`.
        item: Name of the column with their ids.

    Returns:
        The titles by id, missing ones left out; `None` where there is no
        such file, or no titles in it.

    Raises:
        DataError: The file is broken, or has no column of ids, or an id twice.
    """
    file = items_file(source)
    if file is None:
        return None
    table = read_table(file)
    check_columns(list(table.columns), [item], file)
    if TITLE not in table:
        return None
    ids = checked_ids(table, item, file)
    titles = table[TITLE].astype("string")
    known = titles.notna().to_numpy() & ids.notna().to_numpy()
    return pd.Series(
        titles[known].to_numpy(str), pd.Index(ids[known].to_numpy())
    )


def items_file(source: str | Path) -> Path | None:
    """Returns the file `items` of a data folder; `None` without one.

    Args:
        source: The data folder, or `"synthetic"`.
    """
    files = [Path(source, ITEMS + suffix) for suffix in SUFFIXES]
    return next((file for file in files if file.is_file()), None)


def checked_ids(table: pd.DataFrame, item: str, file: Path) -> pd.Series:
    """Returns the ids of the items of the file `items`.

    Args:
        table: The table, with the ids in the column `item`.
        item: Name of that column.
        file: The file, for the error message.

    Raises:
        DataError: A value is no id, or an id is there twice.
    """
    ids = Id().check(table[item], file)
    twice = ids[ids.duplicated() & ids.notna()]
    if len(twice):
        raise DataError.at(file, "each item once", f"{twice.iloc[0]!r} twice")
    return ids


def with_titles(
    table: pd.DataFrame, source: str | Path, item: str
) -> pd.DataFrame:
    """Returns a table of items with their titles, behind their ids.

    Args:
        table: The table, with the ids in the column `item`; it is changed.
        source: As in `read_titles`.
        item: Name of that column.

    Returns:
        The table itself; as it was where the data have no titles.
    """
    titles = read_titles(source, item)
    if titles is None:
        return table
    # Ids of a file may be integers where the model has texts.
    by_text = titles.set_axis(titles.index.map(str))
    known = table[item].map(str).map(by_text)
    table.insert(1, TITLE, known.fillna(""))
    return table
