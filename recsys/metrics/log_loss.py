import numpy as np

from recsys.metrics.scored_rows import ScoredRows
from recsys.metrics.scored_rows import check_probabilities

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


def log_loss(rows: ScoredRows) -> float | None:
    """Returns the mean negative log likelihood of the labels, in nats.

        -Σ_i w_i (y_i log p_i + (1 - y_i) log(1 - p_i)) / Σ_i w_i

    with each `p_i` within 1e-7 and 1 - 1e-7, as in training.

    Args:
        rows: The rows, with probabilities for scores.

    Returns:
        The loss, `None` where there is no row.

    Raises:
        ValueError: A score is no probability.

    Example:
    >>> from recsys.metrics import ScoredRows, log_loss
    >>> round(log_loss(ScoredRows.of([1, 0], [0.5, 0.5])), 4)
    0.6931
    """
    check_probabilities(rows)
    scores = rows.scores.astype(np.float64)
    likelihood = np.where(rows.labels, scores, 1 - scores)
    return rows.mean(-np.log(bounded(likelihood)))
