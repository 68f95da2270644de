from recsys.metrics.labelled_rows import LabelledRows


def class_accuracy(rows: LabelledRows) -> float:
    """Returns the share of rows whose likeliest class is that of the label.

    Args:
        rows: The rows, with classes for labels. Of classes that are as likely
            the first is taken.

    Example:
    >>> import numpy as np
    >>> probabilities = np.array([[0.7, 0.3], [0.6, 0.4]])
    >>> class_accuracy(LabelledRows(np.array([0.0, 1.0]), probabilities))
    0.5
    """
    return rows.mean(rows.predictions.argmax(axis=1) == rows.labels)
