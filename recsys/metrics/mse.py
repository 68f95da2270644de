import numpy as np

from recsys.metrics.labelled_rows import LabelledRows


def mse(rows: LabelledRows) -> float:
    """Returns the mean squared error.

    Args:
        rows: The rows, with numbers for labels.

    Example:
    >>> mse(LabelledRows(np.array([1.0, 2.0]), np.array([1.0, 5.0])))
    4.5
    """
    return rows.mean(np.square(rows.labels - rows.predictions))
