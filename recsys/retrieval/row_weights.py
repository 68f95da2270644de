from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

ALL_ROWS = "all"


def row_weights(
    labels: Mapping[str, np.ndarray],
    label: str | None,
    weights: np.ndarray | None,
    num_rows: int,
) -> npt.NDArray[np.float32]:
    """Returns how much each row counts for retrieval, float32 `(rows,)`.

    Args:
        labels: For each task, a float array `(rows,)`, NaN where missing.
        label: The binary task whose label is 1 in rows that count; all rows
            do with `"all"` or `None`.
        weights: Array `(rows,)` of the weights of rows; `None` where each row
            counts once.
        num_rows: How many rows there are.

    Example:
    >>> watched = {"watch": np.array([1.0, 0.0, np.nan])}
    >>> row_weights(watched, "watch", np.array([2.0, 2.0, 2.0]), 3).tolist()
    [2.0, 0.0, 0.0]
    """
    counts = np.ones(num_rows, np.float32)
    if label not in (None, ALL_ROWS):
        counts = (labels[str(label)] == 1).astype(np.float32)
    if weights is not None:
        counts = counts * np.asarray(weights, np.float32)
    return counts
