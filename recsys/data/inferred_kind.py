"""What a column is, as far as its name and its values say."""

import re
from collections.abc import Iterable
from collections.abc import Sequence

import numpy as np
import pandas as pd

from recsys.columns.kind import Declaration

# Names without their capitals and signs, most usual ones first.
USERS = (
    *("user", "userid", "uid", "username", "customer", "customerid"),
    *("member", "memberid", "visitor", "visitorid", "account", "accountid"),
    *("session", "sessionid", "reviewerid"),
)
ITEMS = (
    *("item", "itemid", "movie", "movieid", "product", "productid", "film"),
    *("filmid", "article", "articleid", "book", "bookid", "isbn", "asin"),
    *("video", "videoid", "song", "songid", "track", "trackid", "sku"),
    *("artist", "artistid", "business", "businessid", "ad", "adid"),
)
_TASKS = (
    *("click", "clicked", "isclick", "like", "liked", "buy", "bought"),
    *("purchase", "purchased", "order", "ordered", "conversion", "converted"),
    *("watch", "watched", "label", "target", "rating", "stars", "score"),
    *("finished", "completed"),
)
_TIMES = ("time", "timestamp", "date", "datetime", "unixreviewtime")
_FREE_TEXT = 0.5  # Different texts per row, from where on they are no ids.
_FEW_ROWS = 50  # So few say nothing of how often a value comes again.
# As ISO 8601 has it; without the dashes a text may be an id.
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?)?")
_LARGEST = 2**53  # Integers above it are no numbers, but names.


def is_usual_label(column: object) -> bool:
    """Returns whether labels usually have a column's name, such as Clicked?."""
    return _bare(column) in _TASKS


def kind_of_label(column: pd.Series) -> tuple[str, str]:
    """Returns the kind of a task by its labels, and the reason."""
    numbers = _numbers(column)
    if numbers is None:
        return "multiclass", "texts"
    if set(numbers.unique()) <= {0.0, 1.0}:
        return "binary", "0 and 1 alone"
    return "regression", "numbers"


def kind_of_feature(column: pd.Series) -> tuple[Declaration | None, str]:
    """Returns the kind of a feature by its name and values, and the reason.

    Args:
        column: A column that is no task.

    Returns:
        The kind, `None` where the column is to be left out, and a few words.
    """
    known = column.dropna()
    name = _bare(column.name)
    if is_usual_label(column.name):
        return None, "it has the name of a label, and is no task"
    if len(known) and isinstance(known.iloc[0], list | tuple | np.ndarray):
        return _kind_of_lists(known)
    different = num_different(column)
    if different < 2 and not column.isna().any():
        return None, "a single value"
    if different == 0:
        return None, "no value"
    if pd.api.types.is_datetime64_any_dtype(column):
        return None, "a time that rows are not cut by"
    if pd.api.types.is_bool_dtype(known):
        return "id", "yes or no"
    numbers = _numbers(column)
    many = len(known) >= _FEW_ROWS and different == len(known)
    if numbers is not None:
        whole = bool((numbers % 1 == 0).all())
        if many and whole and _is_counter(known, numbers):
            return None, "the number of the row"
        if name.endswith("id") and whole:
            return "id", "its name ends in id"
        if numbers.abs().max() > _LARGEST:
            return "id", "integers too large for numbers"
        return "number", "numbers"
    if len(known) >= _FEW_ROWS and different > _FREE_TEXT * len(known):
        return None, "another text in most rows"
    return "id", "texts"


def _kind_of_lists(known: pd.Series) -> tuple[Declaration, str]:
    lengths = {len(values) for values in known}
    values = [value for values in known for value in values]
    decimals = any(isinstance(value, float) for value in values)
    if decimals and len(lengths - {0}) == 1:
        return {"type": "vector", "size": max(lengths)}, "as many numbers each"
    return "ids", "lists"


def _numbers(column: pd.Series) -> pd.Series | None:
    """The values that are there as floats, if they are numbers.

    Texts with a leading zero, such as 007, are names.
    """
    known = column.dropna()
    if pd.api.types.is_numeric_dtype(known):
        return known.astype("float64")
    if known.map(lambda value: isinstance(value, str)).all():
        texts = known.astype(str)
        if texts.str.fullmatch(r"[+-]?0\d+").any():
            return None
    numbers = pd.to_numeric(known, errors="coerce")
    if not len(known) or numbers.isna().any() or np.isinf(numbers).any():
        return None
    return numbers.astype("float64")


def _is_counter(known: pd.Series, numbers: pd.Series) -> bool:
    """Whether each number is the one before and 1."""
    exact = known if pd.api.types.is_integer_dtype(known) else numbers
    return bool((np.diff(exact.to_numpy()) == 1).all())


def usually_named(
    rows: pd.DataFrame, names: Sequence[str], taken: Iterable[str | None]
) -> str | None:
    """Returns the column with the most usual of some names.

    Args:
        rows: The table.
        names: `USERS` or `ITEMS`, without capitals and signs.
        taken: Columns that have another meaning.
    """
    names_of_rows = [str(name) for name in rows if name not in set(taken)]
    bare = {_bare(name): name for name in names_of_rows}
    return next((bare[name] for name in names if name in bare), None)


def time_of(rows: pd.DataFrame, taken: Iterable[str | None]) -> str | None:
    """Returns the column with the time: by its name, or the only dates.

    Args:
        rows: The table.
        taken: Columns that have another meaning.
    """
    named = usually_named(rows, _TIMES, taken)
    if named is not None and not rows[named].isna().any():
        return named
    dates = [
        str(name)
        for name in rows
        if name not in set(taken)
        and not rows[name].isna().any()
        and _is_dates(rows[name])
    ]
    return dates[0] if len(dates) == 1 else None


def _is_dates(column: pd.Series) -> bool:
    """Whether all values are dates, or texts of one, as a CSV file has them."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    if pd.api.types.is_numeric_dtype(column):
        return False
    return all(isinstance(v, str) and _DATE.fullmatch(v) for v in column)


def _bare(name: object) -> str:
    """A name without capitals and signs, such as `User_ID`: userid."""
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def num_different(column: pd.Series) -> int:
    """Returns how many values a column has, each counted once."""
    known = column.dropna()
    if len(known) and isinstance(known.iloc[0], list | tuple | np.ndarray):
        known = known.map(tuple)
    return int(known.nunique())
