import numpy as np

_CERTAIN = 3.0  # Standard errors.


def is_certain(gains: np.ndarray, weights: np.ndarray | None = None) -> bool:
    """Returns whether the mean of gains is above 0 by three standard errors.

    Args:
        gains: By how much each row gains, `(rows,)`.
        weights: How much each row counts, `(rows,)`; once unless given.

    Example:
    >>> is_certain(np.array([1.0, 0.9, 1.1])), is_certain(np.array([3.0, -2]))
    (True, False)
    """
    if len(gains) < 2:
        return False
    if weights is not None:
        gains = gains * weights
    error = gains.std() / np.sqrt(len(gains))
    return bool(gains.mean() > _CERTAIN * error)
