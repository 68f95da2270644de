"""Checks that a split has labels to learn from and to measure by."""

import logging
from collections.abc import Iterable
from collections.abc import Mapping

from recsys.data.split import Split
from recsys.errors import DataError

_log = logging.getLogger(__name__)


def check_labelled(
    split: Split,
    tasks: Iterable[str],
    source: object,
    weight: str | None = None,
) -> None:
    """Raises DataError where a split has no label of any of the tasks.

    The loss of such a split is 0, whatever the model predicts.

    Args:
        split: The split.
        tasks: Names of the tasks.
        source: Where the split comes from, for the error message.
        weight: Column with the weights of rows; labels of rows of weight 0 do
            not count. None unless given.

    Example:
    >>> import pandas as pd
    >>> split = pd.DataFrame({"click": [None], "stars": [5.0]})
    >>> check_labelled(split, ["click", "stars"], "test.csv")
    >>> check_labelled(split, ["click"], "test.csv")
    Traceback (most recent call last):
    ...
    recsys.errors.DataError: test.csv: expected a label of at least one of \
['click']. Received: none in 1 rows
    """
    tasks = list(tasks)
    if len(_unlabelled(split, tasks, weight)) == len(tasks):
        weighing = "" if weight is None else f" with a {weight!r} above 0"
        raise DataError.at(
            source,
            f"a label of at least one of {tasks}{weighing}",
            f"none in {len(split):,} rows",
        )


def warn_of_missing_labels(
    splits: Mapping[str, Split], tasks: Iterable[str], source: object
) -> None:
    """Warns of each task that a split has no label of.

    Args:
        splits: The splits by name.
        tasks: Names of the tasks.
        source: The data set, for the warning.
    """
    for name, split in splits.items():
        for task in _unlabelled(split, tasks):
            _log.warning(
                "%s: the %s split has no label of the task %r, which %s.",
                source,
                name,
                task,
                "will not be learned"
                if name == "train"
                else "has neither loss nor metrics there",
            )


def _unlabelled(
    split: Split, tasks: Iterable[str], weight: str | None = None
) -> list[str]:
    counts = True if weight is None else split[weight] > 0
    return [task for task in tasks if not (split[task].notna() & counts).any()]
