import numpy as np

from recsys.metrics.recommended_lists import RecommendedLists

_LISTS = 4096  # At a time.


def intra_list_distance(lists: RecommendedLists) -> float | None:
    """Returns how different the items of a list are from each other.

        mean over lists of the mean of 1 - cos(v_i, v_j)

    over pairs of items i and j of a list, from 0 for the same vectors to 2. A
    list of fewer than two items does not count; `None` without any other.

    References:
        Ziegler, McNee, Konstan, Lausen. Improving Recommendation Lists Through
        Topic Diversification. WWW 2005, section 3.2.2.
    """
    vectors = lists.vectors.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = np.divide(
        vectors, lengths, np.zeros_like(vectors), where=lengths > 0
    )
    parts = [
        _distances(units, lists.items[start : start + _LISTS])
        for start in range(0, len(lists.items), _LISTS)
    ]
    return lists.mean(np.concatenate(parts)) if parts else None


def _distances(units: np.ndarray, items: np.ndarray) -> np.ndarray:
    """The mean distance of each list, `(Q,)`; NaN of fewer than two items."""
    there = items >= 0
    rows = np.where(there[:, :, None], units[items], 0.0)  # (Q, k, D)
    numbers = there.sum(axis=1)
    # The sum of all cosines is the squared length of the sum.
    of_all = (rows.sum(axis=1) ** 2).sum(axis=1)
    of_pairs = of_all - (rows**2).sum(axis=(1, 2))
    pairs = numbers * (numbers - 1)
    nothing = np.full(len(items), np.nan)
    return 1 - np.divide(of_pairs, pairs, nothing, where=pairs > 0)
