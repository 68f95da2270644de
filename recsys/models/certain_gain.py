import numpy as np

_CERTAIN = 3.0  # Standard errors.
_LEAST = 1e-6  # Of the losses: what float32 of them would not show.


def is_certain(
    gains: np.ndarray, losses: np.ndarray, weights: np.ndarray | None = None
) -> bool:
    """Returns whether the mean of gains is above 0 by three standard errors.

    Gains that are less than the rounding of the losses are none: what is left
    of the first values of a fit can gain for certain, and nothing.

    Args:
        gains: By how much each row gains, `(rows,)`.
        losses: What each row has without them, `(rows,)`.
        weights: How much each row counts, `(rows,)`; once unless given.

    Example:
    >>> losses = np.array([2.0, 2.0, 2.0])
    >>> is_certain(np.array([1.0, 0.9, 1.1]), losses)
    True
    >>> is_certain(np.array([3.0, -2.0, 0.0]), losses)
    False
    >>> is_certain(np.array([1e-9, 1e-9, 1e-9]), losses)
    False
    """
    if len(gains) < 2:
        return False
    if weights is not None:
        gains, losses = gains * weights, losses * weights
    error = gains.std() / np.sqrt(len(gains))
    return bool(gains.mean() > max(_CERTAIN * error, _LEAST * losses.mean()))
