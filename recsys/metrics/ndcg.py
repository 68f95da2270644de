import numpy as np

from recsys.metrics.group_mean import GroupMean
from recsys.metrics.positions import Positions
from recsys.metrics.scored_rows import ScoredRows


def ndcg(rows: ScoredRows, k: int | None = 10) -> GroupMean:
    """Returns the normalised discounted cumulative gain of the first k.

        NDCG@k = DCG@k / ideal DCG@k,   DCG@k = Σ_{i ≤ k} y_i / log2(i + 1)

    with `y_i` the label of the row at position i of a group; the ideal ranking
    has the positive rows first. The expected value where scores tie, and the
    mean over the groups with a positive row: see `Positions`.

    Args:
        rows: The rows, with groups.
        k: How many positions count; 10 unless given, all where `None`.

    Raises:
        ValueError: The rows have no groups, or `k` is less than 1.

    Example:
    >>> from recsys.metrics import ScoredRows, ndcg
    >>> rows = ScoredRows.of([0, 1, 0], [0.9, 0.8, 0.1], ["a", "a", "a"])
    >>> round(ndcg(rows, k=2).value, 4), ndcg(rows, k=1).value
    (0.6309, 0.0)

    References:
        Järvelin and Kekäläinen, Cumulated Gain-Based Evaluation of IR
        Techniques, 2002, with the discount of Burges et al., Learning to Rank
        using Gradient Descent, 2005; section 2.6 of McSherry and Najork, 2008,
        for ties.
    """
    positions = Positions.of(rows)
    starts, ends = positions.within(k)
    most = int(ends.max(initial=0))
    # The discounts of the first 0, 1, 2, ... positions.
    discounts = np.zeros(most + 1)
    np.cumsum(1 / np.log2(np.arange(2, most + 2)), out=discounts[1:])
    gains = positions.by_positives(discounts[ends] - discounts[starts])
    ideal = discounts[np.minimum(positions.group_positives, most)]
    return positions.mean(np.divide(gains, ideal, gains, where=ideal > 0))
