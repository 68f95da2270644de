import numpy as np
import numpy.typing as npt

from recsys.metrics.ranking import Ranking
from recsys.metrics.scored_rows import ScoredRows


def auc(rows: ScoredRows) -> float | None:
    """Returns the area under the ROC curve.

    The probability that a positive row has a higher score than a negative one,
    a tie counting one half:

        Σ_i Σ_j w_i w_j ([s_i > s_j] + ½ [s_i = s_j]) / (Σ_i w_i Σ_j w_j)

    over the positive rows i and the negative rows j.

    Args:
        rows: The rows.

    Returns:
        The area, `None` where all rows are of one class.

    Example:
    >>> from recsys.metrics import ScoredRows, auc
    >>> auc(ScoredRows.of([1, 1, 0, 0], [0.9, 0.4, 0.4, 0.1]))
    0.875

    References:
        Fawcett, An introduction to ROC analysis, 2006, sections 7 and 5.
    """
    areas, weights = area_by_group(rows, rows.rankings.of_all)
    return float(areas[0]) if weights.any() else None


def area_by_group(
    rows: ScoredRows, ranking: Ranking
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns the AUC of each group, and the weight of its rows.

    Args:
        rows: The rows.
        ranking: Their ranking, as one group or by their groups.

    Returns:
        Two float64 arrays `(G,)`, both 0 where a class is missing.
    """
    positive = ranking.by_tie(rows.weighted(rows.labels))
    negative = ranking.by_tie(rows.weighted(~rows.labels))
    positives = ranking.by_group(positive)
    negatives = ranking.by_group(negative)
    # The positive rows above the negative ones of a tie, or beside them.
    passed = ranking.before(positive) + positive / 2
    pairs = positives * negatives
    both = pairs > 0
    areas = np.zeros(len(pairs))
    np.divide(ranking.by_group(negative * passed), pairs, areas, where=both)
    return areas, np.where(both, positives + negatives, 0.0)
