"""Checks that a split has labels to learn from and to measure by."""

import logging
from collections.abc import Iterable
from collections.abc import Mapping

from recsys.data.split import Split
from recsys.errors import DataError
from recsys.tasks.row_weight import Weighing
from recsys.tasks.row_weight import columns_of
from recsys.tasks.row_weight import weights_of

_log = logging.getLogger(__name__)


def check_labelled(
    split: Split,
    tasks: Iterable[str],
    source: object,
    weight: Weighing = None,
) -> None:
    """Raises DataError where a split has no label of any of the tasks.

    The loss of such a split is 0, whatever the model predicts.

    Args:
        split: The split.
        tasks: Names of the tasks.
        source: Where the split comes from, for the error message.
        weight: What says what rows count; labels of rows of weight 0 do not.
            Nothing unless given.

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
        names = " and a ".join(map(repr, columns_of(weight)))
        weighing = f" with a {names} above 0" if names else ""
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
    split: Split, tasks: Iterable[str], weight: Weighing = None
) -> list[str]:
    weights = weights_of(split, weight)
    counts = True if weights is None else weights > 0
    return [task for task in tasks if not (split[task].notna() & counts).any()]
