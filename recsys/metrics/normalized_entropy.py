from math import log

from recsys.metrics.log_loss import log_loss
from recsys.metrics.scored_rows import ScoredRows


def normalized_entropy(rows: ScoredRows) -> float | None:
    """Returns the log loss over that of the rows' own share of positives.

        NE = log loss / -(p log p + (1 - p) log(1 - p)),   p = Σ w_i y_i / Σ w_i

    1 is what the best constant has, which knows the share of positive rows and
    nothing else; 0 is perfect. Unlike the log loss, it can be compared between
    tasks and days with different shares.

    Args:
        rows: The rows, with probabilities for scores.

    Returns:
        The ratio, `None` where all rows are of one class.

    Raises:
        ValueError: A score is no probability.

    Example:
    >>> from recsys.metrics import ScoredRows, normalized_entropy
    >>> rows = ScoredRows.of([1, 0, 0, 0], [0.25, 0.25, 0.25, 0.25])
    >>> round(normalized_entropy(rows), 9)
    1.0

    References:
        He et al., Practical Lessons from Predicting Clicks on Ads at Facebook,
        2014, section 2, "Evaluation metrics".
    """
    loss = log_loss(rows)
    share = rows.mean(rows.labels)
    if loss is None or share is None or not 0 < share < 1:
        return None
    return loss / -(share * log(share) + (1 - share) * log(1 - share))
