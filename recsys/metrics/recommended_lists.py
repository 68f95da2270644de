from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class RecommendedLists:
    """The lists that a retrieval recommends, and what is known of the items.

    Attributes:
        items: Items from 0, int `(Q, k)`, a list in each row; -1 after the end
            of a list of fewer.
        weights: What each list counts, `(Q,)`.
        counts: What each item of the catalogue counts in the training split,
            `(N,)`.
        vectors: A vector for each item, `(N, D)`.
    """

    items: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]
    counts: npt.NDArray[np.float64]
    vectors: np.ndarray

    def mean(self, values: np.ndarray) -> float | None:
        """The weighted mean of lists' values `(Q,)`, those with NaN left out.

        `None` where nothing weighs.
        """
        known = ~np.isnan(values) & (self.weights > 0)
        if not known.any():
            return None
        return float(np.average(values[known], weights=self.weights[known]))


def best_items(
    scores: np.ndarray,
    k: int,
    excluded: tuple[np.ndarray, np.ndarray] | None = None,
) -> npt.NDArray[np.int64]:
    """Returns the items with the best scores, the best first.

    Args:
        scores: Array `(B, N)`.
        k: How many items.
        excluded: Rows and items, these from 1, that are no candidates.

    Returns:
        Int `(B, min(k, N))`, items from 0; -1 where none is left.

    Example:
    >>> scores = np.array([[0.1, 0.9, 0.5]])
    >>> best_items(scores, 2, (np.array([0]), np.array([2]))).tolist()
    [[2, 0]]
    """
    if excluded is not None:
        scores = scores.copy()
        scores[excluded[0], excluded[1] - 1] = -np.inf
    k = min(k, scores.shape[1])
    part = np.argpartition(-scores, k - 1, axis=1)[:, :k]  # (B, k)
    part.sort(axis=1)
    chosen = np.take_along_axis(scores, part, axis=1)
    order = np.argsort(-chosen, axis=1, kind="stable")
    items = np.take_along_axis(part, order, axis=1)
    left_out = np.take_along_axis(chosen, order, axis=1) == -np.inf
    return np.where(left_out, -1, items)
