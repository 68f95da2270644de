import numpy as np

from recsys.metrics.first_positive import expected_at_first_positive
from recsys.metrics.group_mean import GroupMean
from recsys.metrics.positions import Positions
from recsys.metrics.scored_rows import ScoredRows
from recsys.metrics.scored_rows import check_positive


def mrr(rows: ScoredRows, k: int | None = None) -> GroupMean:
    """Returns the mean reciprocal rank: 1 / position of the first positive row.

    The expected value where scores tie, and the mean over the groups with a
    positive row: see `Positions`.

    Args:
        rows: The rows, with groups.
        k: Positions beyond it count 0; all count unless given.

    Raises:
        ValueError: The rows have no groups, or `k` is less than 1.

    Example:
    >>> from recsys.metrics import ScoredRows, mrr
    >>> mrr(ScoredRows.of([0, 1, 1], [0.9, 0.8, 0.1], ["a", "a", "b"])).value
    0.75

    References:
        Voorhees, The TREC-8 Question Answering Track Report, 1999.
    """
    if k is not None:
        check_positive("k", k)
    positions = Positions.of(rows)
    most = len(rows) if k is None else k
    return positions.mean(
        expected_at_first_positive(
            positions,
            lambda position: np.where(position <= most, 1 / position, 0),
        )
    )
