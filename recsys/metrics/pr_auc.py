import numpy as np

from recsys.metrics.scored_rows import ScoredRows


def pr_auc(rows: ScoredRows) -> float | None:
    """Returns the area under the precision-recall curve: average precision.

        Σ_t (R_t - R_{t-1}) P_t

    over the scores t from the highest, with the recall `R_t` and the precision
    `P_t` of taking all rows with a score of t or more for positive. Rows with
    the same score are taken together, and nothing is interpolated: between two
    points of the curve, a straight line would be too optimistic.

    Args:
        rows: The rows.

    Returns:
        The area, `None` where no row is positive.

    Example:
    >>> from recsys.metrics import ScoredRows, pr_auc
    >>> round(pr_auc(ScoredRows.of([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1])), 4)
    0.8333

    References:
        Davis and Goadrich, The Relationship Between Precision-Recall and ROC
        Curves, 2006, section 4; `sklearn.metrics.average_precision_score`.
    """
    ranking = rows.rankings.of_all
    positive = ranking.by_tie(rows.weighted(rows.labels))
    taken = np.cumsum(ranking.by_tie(rows.weighted(np.ones(len(rows), bool))))
    # Other ties add nothing to the recall, and may have taken nothing yet.
    steps = positive > 0
    if not steps.any():
        return None
    positive, taken = positive[steps], taken[steps]
    hits = np.cumsum(positive)
    return float((positive * hits / taken).sum() / hits[-1])
