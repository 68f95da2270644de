import numpy as np

from recsys.metrics.labelled_rows import LabelledRows


def mae(rows: LabelledRows) -> float:
    """Returns the mean absolute error, in the label's unit.

    Args:
        rows: The rows, with numbers for labels.

    Example:
    >>> mae(LabelledRows(np.array([1.0, 2.0]), np.array([1.0, 5.0])))
    1.5
    """
    return rows.mean(np.abs(rows.labels - rows.predictions))
