"""What the columns of a table are, as far as their names and values say."""

import re
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from recsys.columns.kind import Declaration
from recsys.data.schema import Schema
from recsys.errors import DataError
from recsys.errors.shown import did_you_mean

Tasks = str | Sequence[str] | Mapping[str, Declaration]
Kinds = Mapping[str, Declaration | None]

# Names without their capitals and signs, most usual ones first.
_USERS = (
    *("user", "userid", "uid", "username", "customer", "customerid"),
    *("member", "memberid", "visitor", "visitorid", "account", "accountid"),
    *("session", "sessionid", "reviewerid"),
)
_ITEMS = (
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


@dataclass(frozen=True)
class InferredColumn:
    """What a column of a table is taken for, and why.

    Attributes:
        name: Its name.
        meaning: "feature", "task", "time" or "left out".
        kind: What `dataset.json` says of it; `None` for no feature or task.
        reason: A few words.
    """

    name: str
    meaning: str
    kind: Declaration | None
    reason: str


@dataclass(frozen=True)
class InferredSchema:
    """A schema, and how each column came into it.

    Attributes:
        schema: The schema.
        columns: What each column of the table is taken for, in their order.
    """

    schema: Schema
    columns: list[InferredColumn]

    def as_table(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Returns a row for each column, to be read by people.

        Args:
            rows: The table that the schema was inferred from.

        Returns:
            The columns "column", "meaning", "kind", "different" (values),
            "missing" (a share) and "because".
        """
        return pd.DataFrame(
            [
                {
                    "column": column.name,
                    "meaning": column.meaning,
                    "kind": _shown_kind(column.kind),
                    "different": _num_different(rows[column.name]),
                    "missing": float(rows[column.name].isna().mean()),
                    "because": column.reason,
                }
                for column in self.columns
            ]
        )


def infer_schema(
    rows: pd.DataFrame,
    tasks: Tasks | None = None,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    kinds: Kinds | None = None,
    name: str = "table",
) -> InferredSchema:
    """Infers what the columns of a table are.

    Labels of 0 and 1 are a binary task, other numbers a regression, texts a
    multiclass task. Of the features, the user, the item, texts, booleans and
    integers whose names end in "id" are ids; other numbers are numbers; lists
    are lists of ids, or vectors where all have as many numbers. Left out are
    columns with a single value, or with another text in most rows, times that
    the table is not cut by, and columns with the name of a label that are not
    among the tasks, since they would give the labels away.

    Args:
        rows: The table.
        tasks: Name of the label, or names of several, or their kinds by name.
            Columns with names that labels usually have, such as "click" and
            "rating", unless given.
        user: Column with the user; one with a usual name unless given.
        item: Column with the item; likewise.
        time: Column with the time; likewise, or the only one with dates.
        kinds: Kinds of features by name, where others than those inferred
            are meant; `None` as a kind leaves a column out.
        name: Name of the data set. Defaults to "table".

    Raises:
        DataError: A named column is not there, or nothing is a label or a
            feature.

    Example:
    >>> rows = pd.DataFrame(
    ...     {"user_id": ["a", "b"] * 9, "age": range(18), "click": [0, 1] * 9}
    ... )
    >>> inferred = infer_schema(rows)
    >>> {column.name: column.kind for column in inferred.columns}
    {'user_id': 'id', 'age': 'number', 'click': 'binary'}
    >>> inferred.schema.user_id
    'user_id'
    """
    kinds = dict(kinds or {})
    if isinstance(tasks, str):
        tasks = [tasks]
    given = [*(tasks or ()), user, item, time, *kinds]
    _check_there(rows, [name for name in given if name is not None], name)
    labels = _labels(rows, tasks, name)
    taken = {*labels, *kinds}
    user = user or _named(rows, _USERS, taken)
    item = item or _named(rows, _ITEMS, taken)
    time = time or _time_of(rows, taken | {user, item})
    columns = []
    for column in map(str, rows):
        if column in labels:
            meaning = InferredColumn(column, "task", *labels[column])
        elif column == time:
            meaning = InferredColumn(
                column, "time", None, "splits are cut by it"
            )
        elif column in kinds:
            kind = kinds[column]
            what = "left out" if kind is None else "feature"
            meaning = InferredColumn(column, what, kind, "given")
        elif column in (user, item):
            role = "the user" if column == user else "the item"
            meaning = InferredColumn(column, "feature", "id", role)
        else:
            meaning = _feature(rows[column])
        columns.append(meaning)
    return InferredSchema(_schema(name, columns, user, item, time), columns)


def is_usual_label(column: object) -> bool:
    """Returns whether labels usually have a column's name, such as Clicked?."""
    return _bare(column) in _TASKS


def _schema(
    name: str,
    columns: Iterable[InferredColumn],
    user: str | None,
    item: str | None,
    time: str | None,
) -> Schema:
    kinds: dict[str, dict[str, Declaration]] = {"feature": {}, "task": {}}
    for column in columns:
        if column.kind is not None:
            kinds[column.meaning][column.name] = column.kind
    for meaning, found in kinds.items():
        if not found:
            raise DataError.at(name, f"a {meaning} among the columns", "none")
    features = kinds["feature"]
    return Schema(
        name,
        features,
        kinds["task"],
        group=user if user in features else None,
        time=time,
        item=item if item in features else None,
        user=user if user in features else None,
    )


def _check_there(rows: pd.DataFrame, names: Iterable[str], source: str) -> None:
    for name in names:
        if name not in rows:
            raise DataError.at(
                source,
                f"a column {name!r}{did_you_mean(name, list(map(str, rows)))}",
                f"the columns {list(rows)}",
            )


def _labels(
    rows: pd.DataFrame,
    tasks: Sequence[str] | Mapping[str, Declaration] | None,
    source: str,
) -> dict[str, tuple[Declaration, str]]:
    """By label, its kind and why."""
    if isinstance(tasks, Mapping):
        return {task: (kind, "given") for task, kind in tasks.items()}
    if tasks is not None:
        return {task: _kind_of_label(rows[task]) for task in tasks}
    named = [str(name) for name in rows if is_usual_label(name)]
    if not named:
        raise DataError.at(
            source,
            "the names of the labels as tasks, as no column is called "
            "click, like, buy, rating or the like",
            f"the columns {list(rows)}",
        )
    return {task: _kind_of_label(rows[task]) for task in named}


def _kind_of_label(column: pd.Series) -> tuple[str, str]:
    numbers = _numbers(column)
    if numbers is None:
        return "multiclass", "texts"
    if set(numbers.unique()) <= {0.0, 1.0}:
        return "binary", "0 and 1 alone"
    return "regression", "numbers"


def _feature(column: pd.Series) -> InferredColumn:
    """What a column is that nothing is said of."""
    kind, reason = _kind_of_feature(column)
    meaning = "left out" if kind is None else "feature"
    return InferredColumn(str(column.name), meaning, kind, reason)


def _kind_of_feature(column: pd.Series) -> tuple[Declaration | None, str]:
    known = column.dropna()
    name = _bare(column.name)
    if is_usual_label(column.name):
        return None, "it has the name of a label, and is no task"
    if len(known) and isinstance(known.iloc[0], list | tuple | np.ndarray):
        return _kind_of_lists(known)
    different = _num_different(column)
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


def _named(
    rows: pd.DataFrame, names: Sequence[str], taken: Iterable[str | None]
) -> str | None:
    """The column with the most usual of some names."""
    names_of_rows = [str(name) for name in rows if name not in set(taken)]
    bare = {_bare(name): name for name in names_of_rows}
    return next((bare[name] for name in names if name in bare), None)


def _time_of(rows: pd.DataFrame, taken: Iterable[str | None]) -> str | None:
    named = _named(rows, _TIMES, taken)
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


def _num_different(column: pd.Series) -> int:
    known = column.dropna()
    if len(known) and isinstance(known.iloc[0], list | tuple | np.ndarray):
        known = known.map(tuple)
    return int(known.nunique())


def _shown_kind(kind: Declaration | None) -> str:
    if kind is None:
        return ""
    return kind if isinstance(kind, str) else str(kind.get("type", kind))
