"""The classes of a data set's tasks, as its training split has them."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

import pandas as pd

from recsys.columns.column_values import refuse
from recsys.data.schema import Schema
from recsys.data.split import Split
from recsys.errors import DataError
from recsys.tasks import Task


def with_learned_tasks(
    schema: Schema,
    train: Sequence[pd.DataFrame],
    parts: Iterable[tuple[object, pd.DataFrame]],
    source: object,
) -> Schema:
    """Brings labels to the form that only the training split decides.

    Args:
        schema: What the columns mean.
        train: Tables with all rows of the training split, parsed and unified.
        parts: Tables with all rows of all splits, after where each comes from;
            their columns of labels are changed.
        source: Where the training split comes from, for the error message.

    Returns:
        The schema with what the labels of the training split tell, such as
        the classes that are texts.

    Raises:
        DataError: A label is none that the training split has, or there are
            not enough different ones.

    Example:
    >>> split = pd.DataFrame({"user": [1, 2], "reason": ["size", "colour"]})
    >>> schema = Schema("shop", {"user": "id"}, {"reason": "multiclass"})
    >>> parts = [("train.csv", split)]
    >>> schema = with_learned_tasks(schema, [split], parts, "train.csv")
    >>> schema.tasks["reason"].declaration
    {'type': 'multiclass', 'classes': ['colour', 'size']}
    >>> split["reason"].tolist()
    [1.0, 0.0]
    """
    tasks = {
        task: kind.learned([part[task] for part in train], source)
        for task, kind in schema.tasks.items()
    }
    learned = [
        task for task, kind in tasks.items() if kind is not schema.tasks[task]
    ]
    if not learned:
        return schema
    for place, part in parts:
        for task in learned:
            part[task] = tasks[task].check(part[task], place)
    return schema.with_tasks(tasks)


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
        DataError: A column, or the prediction of a class of another task, has
            the name of the prediction of a class.
    """
    names = set(schema.columns)
    for task, count in num_classes.items():
        columns = schema.tasks[task].columns(task, count)
        if taken := sorted(names & set(columns)):
            raise DataError.at(
                schema.place,
                f"no column {taken[0]!r}, which is the name of a prediction of "
                f"the task {task!r}",
                "one of that name",
            )
        names |= set(columns)
