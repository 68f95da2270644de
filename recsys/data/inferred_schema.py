"""The schema of a table, as far as its columns' names and values say."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from recsys.columns.kind import Declaration
from recsys.data.inferred_kind import ITEMS
from recsys.data.inferred_kind import USERS
from recsys.data.inferred_kind import is_usual_label
from recsys.data.inferred_kind import kind_of_feature
from recsys.data.inferred_kind import kind_of_label
from recsys.data.inferred_kind import num_different
from recsys.data.inferred_kind import time_of
from recsys.data.inferred_kind import usually_named
from recsys.data.schema import Schema
from recsys.errors import DataError
from recsys.errors.shown import did_you_mean

Tasks = str | Sequence[str] | Mapping[str, Declaration]
Kinds = Mapping[str, Declaration | None]


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
                    "different": num_different(rows[column.name]),
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
    user = user or usually_named(rows, USERS, taken)
    item = item or usually_named(rows, ITEMS, taken)
    time = time or time_of(rows, taken | {user, item})
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
    for meaning, declarations in kinds.items():
        if not declarations:
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
        return {task: kind_of_label(rows[task]) for task in tasks}
    named = [str(name) for name in rows if is_usual_label(name)]
    if not named:
        raise DataError.at(
            source,
            "the names of the labels as tasks, as no column is called "
            "click, like, buy, rating or the like",
            f"the columns {list(rows)}",
        )
    return {task: kind_of_label(rows[task]) for task in named}


def _feature(column: pd.Series) -> InferredColumn:
    """What a column is that nothing is said of."""
    kind, reason = kind_of_feature(column)
    meaning = "left out" if kind is None else "feature"
    return InferredColumn(str(column.name), meaning, kind, reason)


def _shown_kind(kind: Declaration | None) -> str:
    if kind is None:
        return ""
    return kind if isinstance(kind, str) else str(kind.get("type", kind))
