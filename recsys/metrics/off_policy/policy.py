import numpy as np
import numpy.typing as npt

from recsys.metrics.off_policy.logged_choices import Numbers
from recsys.metrics.scored_rows import ScoredRows
from recsys.metrics.scored_rows import check_positive


def top_chances(
    scores: npt.ArrayLike, requests: npt.ArrayLike, top: int = 1
) -> Numbers:
    """Returns how probably a ranking shows each row: those of the best scores.

    Args:
        scores: Array-like `(N,)`.
        requests: Array-like `(N,)` of what the rows are ranked within.
        top: How many rows of a request are shown. Defaults to 1.

    Returns:
        Float64 `(N,)`: 1 for the best rows, 0 for others; of rows with the
        score of the last place, each with the same probability.

    Example:
    >>> top_chances([0.3, 0.9, 0.3, 0.1], [7, 7, 7, 7], top=2).tolist()
    [0.5, 1.0, 0.5, 0.0]
    """
    check_positive("top", top)
    scores = np.asarray(scores)
    unlabelled = np.zeros(len(scores))
    rows = ScoredRows.of(unlabelled, scores, np.asarray(requests))
    assert rows.groups is not None, "given"
    order = np.lexsort((-rows.scores, rows.groups))
    groups, ranked = rows.groups[order], rows.scores[order]
    new_group = np.r_[True, groups[1:] != groups[:-1]]
    new_tie = new_group | np.r_[True, ranked[1:] != ranked[:-1]]
    place = np.arange(len(order))
    first = np.maximum.accumulate(np.where(new_group, place, 0))
    tie = np.cumsum(new_tie) - 1
    sizes = np.bincount(tie, minlength=1)[tie]
    better = np.maximum.accumulate(np.where(new_tie, place, 0)) - first
    chances = np.empty(len(order))
    chances[order] = np.clip((top - better) / sizes, 0.0, 1.0)
    return chances
