"""Names that a schema gives to a data set, its columns and its tasks."""

import re
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TypeVar

from recsys.data.inferred_kind import is_usual_label
from recsys.errors import DataError
from recsys.errors.shown import shown

Declared = TypeVar("Declared")

_COLUMNS = "columns named by a text"
# Metrics, figures and TensorFlow's scopes are named after tasks.
_TASK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_VALIDATION = "val_"
# What a history, or another table of results, has beside the tasks.
_RESERVED = (
    "epoch",
    "loss",
    "val",
    "val_loss",
    "lr",
    "learning_rate",
    "seconds",
    "rows",
    "total",
    "experts_per_example",
)


def checked_name(key: str, name: object, expected: str) -> str:
    """Returns a name as a plain text, where it is one of more than blanks.

    Args:
        key: The key of `dataset.json` that gives the name.
        name: The name.
        expected: What it should be, for the error message.

    Raises:
        DataError: It is no such text, or has half a character, a lone
            surrogate, which no file can have.
    """
    if not isinstance(name, str) or not name.strip():
        raise DataError.at(f"'{key}'", expected, shown(name))
    try:
        name.encode()
    except UnicodeEncodeError:
        expected = "valid Unicode text"
        raise DataError.at(f"'{key}'", expected, shown(name)) from None
    return str.__str__(name)  # NumPy's texts are of a class of their own.


def checked_columns(
    key: str, columns: Mapping[str, Declared]
) -> dict[str, Declared]:
    """Returns columns by their names, which are checked; there is at least one.

    Args:
        key: The key of `dataset.json` that gives the columns.
        columns: What each is declared as.

    Raises:
        DataError: There is no column, or one without a name.
    """
    if not isinstance(columns, dict) or not columns:
        expected = "column names with a type each"
        raise DataError.at(f"'{key}'", expected, shown(columns))
    return {
        checked_name(key, column, _COLUMNS): declared
        for column, declared in columns.items()
    }


def checked_list(key: str, columns: Iterable[str]) -> list[str]:
    """Returns names of columns as a list of texts.

    Args:
        key: The key of `dataset.json` that gives the columns.
        columns: The names.

    Raises:
        DataError: They are no list of names.
    """
    given = [*columns] if _is_list(columns) else [None]
    if not all(isinstance(name, str) for name in given):
        raise DataError.at(f"'{key}'", "a list of columns", shown(columns))
    return [checked_name(key, name, _COLUMNS) for name in given]


def _is_list(value: object) -> bool:
    """Returns whether a value is what a list can be made of."""
    return isinstance(value, Iterable) and not isinstance(value, str | Mapping)


def check_task_name(task: str) -> None:
    """Raises DataError unless files and metrics can be named after a task."""
    if not _TASK_NAME.fullmatch(task):
        expected = "tasks named by letters, digits, `_`, `.` and `-`"
    elif task.lower() in _RESERVED:
        expected = f"tasks with other names than {', '.join(_RESERVED)}"
    elif task.lower().startswith(_VALIDATION):
        expected = (
            f"tasks whose names do not begin with {_VALIDATION!r}, as the "
            "columns of the validation split in history.csv do"
        )
    else:
        return
    raise DataError.at("'tasks'", expected, shown(task))


def new_task_names(
    columns: Iterable[str], tasks: Sequence[str] = ()
) -> dict[str, str]:
    """Returns new names for the labels of a table that need one.

    Files and metrics are named after tasks, so that these may have letters,
    digits, `_`, `.` and `-` only: "Bought?" becomes "Bought". Where nothing is
    left of a name, or the new one is that of another column, it stays.

    Args:
        columns: Names of all columns.
        tasks: Names of the labels. Those that labels usually have unless
            given.

    Example:
    >>> new_task_names(["Bought?", "like", "user id"])
    {'Bought?': 'Bought'}
    """
    columns = list(columns)
    labels = [
        name
        for name in columns
        if (name in tasks if tasks else is_usual_label(name))
    ]
    renamed: dict[str, str] = {}
    for label in labels:
        new = re.sub(r"[^A-Za-z0-9_.-]+", "_", label).strip("_")
        free = new not in columns and new not in renamed.values()
        if not _is_task_name(label) and _is_task_name(new) and free:
            renamed[label] = new
    return renamed


def _is_task_name(name: str) -> bool:
    try:
        check_task_name(name)
    except DataError:
        return False
    return True
