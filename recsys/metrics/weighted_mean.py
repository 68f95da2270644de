import numpy as np


def weighted_mean(values: np.ndarray, weights: np.ndarray | None) -> float:
    """Returns the mean of values `(rows,)`.

    Args:
        values: The values.
        weights: Array `(rows,)` with a positive sum; `None` where each row
            counts once.

    Example:
    >>> weighted_mean(np.array([1.0, 5.0]), np.array([3.0, 1.0]))
    2.0
    """
    if weights is None:
        return float(values.mean())
    return float(np.average(values, weights=weights))
