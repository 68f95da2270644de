import numpy as np

from recsys.metrics.labelled_rows import LabelledRows
from recsys.metrics.log_loss import bounded


def class_log_loss(rows: LabelledRows) -> float:
    """Returns the mean negative log likelihood of the classes, in nats.

    Each probability is taken within 1e-7 and 1 - 1e-7, as in training.

    Args:
        rows: The rows, with classes for labels.

    Example:
    >>> probabilities = np.array([[0.5, 0.3, 0.2]])
    >>> round(class_log_loss(LabelledRows(np.array([0.0]), probabilities)), 4)
    0.6931
    """
    classes = rows.labels.astype(np.int64)
    of_label = rows.predictions[np.arange(len(classes)), classes]
    return rows.mean(-np.log(bounded(of_label)))
