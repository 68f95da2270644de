"""Tasks that come after others, as a purchase comes after a click."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from recsys.tasks.row_weight import Rows
from recsys.tasks.task import Task


def parents_first(tasks: Mapping[str, Task]) -> list[str]:
    """Returns the names of tasks, each behind the one that it comes after.

    Args:
        tasks: Tasks with their kind, checked by `Task.check_among`.

    Example:
    >>> from recsys.tasks import Binary
    >>> parents_first({"buy": Binary(after="click"), "click": Binary()})
    ['click', 'buy']
    """

    def depth(task: str) -> int:
        parent = tasks[task].parent
        return 0 if parent is None else 1 + depth(parent)

    return sorted(tasks, key=depth)


def labels_of(
    rows: Rows, tasks: Mapping[str, Task]
) -> dict[str, npt.NDArray[np.float64]]:
    """Returns the labels that tasks are trained on and measured by.

    That of a task after another one is whether both happened, over all rows:
    0 as soon as one of the two is 0, whatever the other is, 1 where both are
    1, and else missing. So nothing was bought where nothing was clicked, also
    where the column of the purchase is empty there, or says otherwise.

    Args:
        rows: A column of labels for each task.
        tasks: Tasks with their kind.

    Returns:
        By task, float64 array `(rows,)`, NaN where missing.

    Example:
    >>> import pandas as pd
    >>> from recsys.tasks import Binary
    >>> tasks = {"click": Binary(), "buy": Binary(after="click")}
    >>> rows = pd.DataFrame({"click": [1, 1, 0], "buy": [1, None, None]})
    >>> labels_of(rows, tasks)["buy"]
    array([ 1., nan,  0.])

    References:
        Ma et al., Entire Space Multi-Task Model, SIGIR 2018, section 2,
        equation 3: the label `y & z` of click and conversion.
    """
    labels: dict[str, npt.NDArray[np.float64]] = {}
    for task in parents_first(tasks):
        values = rows[task].to_numpy(np.float64)
        parent = tasks[task].parent
        labels[task] = (
            values if parent is None else _both(labels[parent], values)
        )
    return {task: labels[task] for task in tasks}


def _both(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns whether both events happened; a single "no" decides."""
    return np.where((first == 0) | (second == 0), 0.0, first * second)
