"""Names of tasks for labels whose columns have other names than a task may."""

import re
from collections.abc import Iterable
from collections.abc import Sequence

from recsys.data.inferred_kind import is_usual_label
from recsys.data.schema_names import check_task_name
from recsys.errors import DataError


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
