from recsys.metrics.scored_rows import ScoredRows


def accuracy(rows: ScoredRows) -> float | None:
    """Returns the share of rows whose label is said: 1 above a half.

    Args:
        rows: The rows, with probabilities for scores.

    Returns:
        The share, `None` where there is no row.

    Example:
    >>> from recsys.metrics import ScoredRows, accuracy
    >>> accuracy(ScoredRows.of([1, 0, 0, 1], [0.8, 0.5, 0.9, 0.6]))
    0.75
    """
    return rows.mean((rows.scores > 0.5) == rows.labels)
