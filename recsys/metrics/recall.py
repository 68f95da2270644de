import numpy as np

from recsys.metrics.group_mean import GroupMean
from recsys.metrics.positions import Positions
from recsys.metrics.scored_rows import ScoredRows


def recall(rows: ScoredRows, k: int | None = 10) -> GroupMean:
    """Returns the share of a group's positive rows that are among its first k.

    The expected value where scores tie, and the mean over the groups with a
    positive row: see `Positions`. Divided by all positive rows of a group,
    also where they are more than k.

    Args:
        rows: The rows, with groups.
        k: How many positions count; 10 unless given, all where `None`.

    Raises:
        ValueError: The rows have no groups, or `k` is less than 1.

    Example:
    >>> from recsys.metrics import ScoredRows, recall
    >>> rows = ScoredRows.of([1, 0, 1], [0.9, 0.8, 0.1], ["a", "a", "a"])
    >>> recall(rows, k=2).value
    0.5
    """
    positions = Positions.of(rows)
    starts, ends = positions.within(k)
    hits = positions.by_positives(ends - starts)
    return positions.mean(hits / np.maximum(positions.group_positives, 1))
