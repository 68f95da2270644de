from collections.abc import Mapping
from typing import Any

import numpy as np


def training_arrays(
    inputs: Mapping[str, Any], labels: Mapping[str, Any], weights: Any = None
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Returns rows as `fit` of Keras takes them.

    Args:
        inputs: For each feature, an array `(rows, ...)`.
        labels: For each task, a float array `(rows,)`, NaN where missing.
        weights: Float array `(rows,)`, how much each row counts in the losses
            of its batch. Each counts once unless given.

    Returns:
        The inputs; the labels, float32 `(rows, 1)`, 0 where missing; and how
        much each row counts in the loss of each task, `(rows,)`: a row without
        a label not at all.

    Example:
    >>> _, labels, weights = training_arrays(
    ...     {"user": np.array([7, 8])}, {"watch": np.array([1.0, np.nan])}
    ... )
    >>> labels["watch"].tolist(), weights["watch"].tolist()
    ([[1.0], [0.0]], [1.0, 0.0])
    """
    known = {
        task: (~np.isnan(values)).astype(np.float32)
        for task, values in labels.items()
    }
    if weights is not None:
        for counts in known.values():
            counts *= weights
    filled = {
        task: np.nan_to_num(values)[:, None].astype(np.float32)
        for task, values in labels.items()
    }
    return dict(inputs), filled, known
