import numpy as np

from recsys.metrics.position_gains import PositionGains


def catalogue_ndcg(k: int) -> PositionGains:
    """Returns ndcg@k: 1 / log2(1 + position), by that of an ideal ranking.

        NDCG@k = DCG@k / ideal DCG@k of min(T, k) right answers

    Args:
        k: How many items are retrieved.

    Example:
    >>> metric = catalogue_ndcg(3)
    >>> metric.gains.round(4).tolist()
    [1.0, 0.6309, 0.5]
    >>> metric.most(np.array([1, 2, 9])).round(4).tolist()
    [1.0, 1.6309, 2.1309]

    References:
        As those of `recsys.metrics.ndcg`.
    """
    gains = 1 / np.log2(np.arange(2, k + 2))
    ideal = np.cumsum(gains)
    return PositionGains(gains, lambda counts: ideal[np.minimum(counts, k) - 1])
