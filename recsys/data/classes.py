"""The classes of a data set's tasks, as its training split has them."""

from collections.abc import Mapping

from recsys.column_values import refuse
from recsys.data.schema import Schema
from recsys.data.split_dataset import Split
from recsys.errors import DataError
from recsys.tasks import Task


def count_classes(
    train: Split, tasks: Mapping[str, Task], source: object
) -> dict[str, int]:
    """Returns how many classes there are, for each task that has classes.

    Args:
        train: The training split.
        tasks: The tasks with their kind.
        source: Where the split comes from, for the error message.

    Raises:
        DataError: A task has fewer than two classes.

    Example:
    >>> import pandas as pd
    >>> from recsys.tasks import Binary, Multiclass
    >>> split = pd.DataFrame({"click": [0.0, 1.0], "reason": [2.0, None]})
    >>> tasks = {"click": Binary(), "reason": Multiclass()}
    >>> count_classes(split, tasks, "train.csv")
    {'reason': 3}
    """
    counts = {
        task: kind.num_classes(train[task], source)
        for task, kind in tasks.items()
    }
    return {task: count for task, count in counts.items() if count is not None}


def check_classes(
    split: Split, num_classes: Mapping[str, int], source: object, train: str
) -> None:
    """Checks that a split has no classes that the training split has not.

    Args:
        split: The split.
        num_classes: What `count_classes` returns.
        source: Where the split comes from, for the error message.
        train: What the training split is called there.

    Raises:
        DataError: A label is larger than the largest of the training split.
    """
    for task, count in num_classes.items():
        labels = split[task]
        expected = f"one of the classes 0 to {count - 1} of {train}"
        refuse(labels, labels >= count, expected, source)


def check_names(schema: Schema, num_classes: Mapping[str, int]) -> None:
    """Checks that no two columns of what is predicted have one name.

    Args:
        schema: What the columns mean.
        num_classes: What `count_classes` returns.

    Raises:
        DataError: A column has the name of the prediction of a class.
    """
    for task, count in num_classes.items():
        columns = schema.tasks[task].columns(task, count)
        if taken := sorted(schema.columns.keys() & set(columns)):
            raise DataError.at(
                f"data set {schema.name!r}",
                f"no column {taken[0]!r}, the name that a prediction of the "
                f"task {task!r} has",
                "one of that name",
            )
