import numpy as np

from recsys.metrics.position_gains import PositionGains


def catalogue_recall(k: int) -> PositionGains:
    """Returns recall@k: the share of the right answers among the first k.

    Args:
        k: How many items are retrieved.

    Example:
    >>> metric = catalogue_recall(2)
    >>> metric.gains.tolist(), metric.most(np.array([4])).tolist()
    ([1.0, 1.0], [4])
    """
    return PositionGains(np.ones(k), lambda counts: counts)
