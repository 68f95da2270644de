import numpy as np

# What Keras's cross-entropies keep probabilities away from 0 and 1.
_EPSILON = 1e-7


def bounded(probabilities: np.ndarray) -> np.ndarray:
    """Returns probabilities as Keras's cross-entropies take them.

    Args:
        probabilities: Array of any shape.

    Example:
    >>> bounded(np.array([0.0, 0.5])).tolist()
    [1e-07, 0.5]
    """
    return np.clip(probabilities, _EPSILON, 1 - _EPSILON)
