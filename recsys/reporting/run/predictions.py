"""What a model predicts for inputs in memory."""

from collections.abc import Mapping

import numpy as np
from keras import ops

from recsys.models.multi_task_model import MultiTaskModel

_BATCH = 1024


def predict(
    model: MultiTaskModel, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns the predictions for encoded rows, such as a run's sample.

    Args:
        model: A model.
        inputs: As `encode` of the model returns them.

    Returns:
        By task, float64 array `(rows,)`, or `(rows, classes)`.
    """
    rows = len(next(iter(inputs.values())))
    parts = [
        model({n: x[i : i + _BATCH] for n, x in inputs.items()}, training=False)
        for i in range(0, rows, _BATCH)
    ]
    outputs = {
        task: np.concatenate([ops.convert_to_numpy(p[task]) for p in parts])
        for task in model.tasks
    }
    return {
        task: (y[:, 0] if y.ndim > 1 and y.shape[1] == 1 else y).astype(float)
        for task, y in outputs.items()
    }
