from recsys.metrics.labelled_rows import LabelledRows
from recsys.metrics.mse import mse


def rmse(rows: LabelledRows) -> float:
    """Returns the root of the mean squared error, in the label's unit.

    Args:
        rows: The rows, with numbers for labels.

    Example:
    >>> import numpy as np
    >>> rmse(LabelledRows(np.array([1.0, 2.0]), np.array([4.0, 5.0])))
    3.0
    """
    return mse(rows) ** 0.5
