from recsys.metrics.first_positive import expected_at_first_positive
from recsys.metrics.group_mean import GroupMean
from recsys.metrics.positions import Positions
from recsys.metrics.scored_rows import ScoredRows
from recsys.metrics.scored_rows import check_positive


def hit_rate(rows: ScoredRows, k: int = 10) -> GroupMean:
    """Returns the share of the groups with a positive row among the first k.

    The expected value where scores tie, and the mean over the groups with a
    positive row: see `Positions`.

    Args:
        rows: The rows, with groups.
        k: How many positions count; 10 unless given.

    Raises:
        ValueError: The rows have no groups, or `k` is less than 1.

    Example:
    >>> from recsys.metrics import ScoredRows, hit_rate
    >>> rows = ScoredRows.of([0, 1, 1], [0.9, 0.8, 0.1], ["a", "a", "b"])
    >>> hit_rate(rows, k=1).value
    0.5
    """
    check_positive("k", k)
    positions = Positions.of(rows)
    return positions.mean(
        expected_at_first_positive(positions, lambda position: position <= k)
    )
