from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
# Takes relevance (C,) from 0 to 1, similarity (C, C), a number of items and a
# diversity from 0 to 1; returns the places of the chosen items in order.
Reranker = Callable[[Numbers, Numbers, int, float], list[int]]


def relevance(scores: npt.ArrayLike) -> Numbers:
    """Returns scores on a scale from 0, the least, to 1, the largest.

    Args:
        scores: Array-like `(C,)` of finite numbers.

    Example:
    >>> relevance([2.0, 4.0, 3.0]).tolist()
    [0.0, 1.0, 0.5]
    """
    values = np.asarray(scores, np.float64)
    span = np.ptp(values) if len(values) else 0.0
    return (values - values.min()) / span if span else np.ones(len(values))


def cosine_similarity(vectors: npt.ArrayLike) -> Numbers:
    """Returns the cosines of all pairs of vectors, `(C, C)`; 0 with a zero.

    Args:
        vectors: Array-like `(C, D)`.
    """
    rows = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units = np.divide(rows, lengths, np.zeros_like(rows), where=lengths > 0)
    return np.asarray(units @ units.T)
