from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from recsys.metrics.log_loss import bounded
from recsys.metrics.paired_difference import Floats


@dataclass(frozen=True)
class ScoredTask:
    """What two models say about the rows of a task that have a label.

    Attributes:
        name: The task.
        kind: Its kind.
        labels: Array `(N,)`: 0 or 1, a number, or a class.
        old: Predictions of the old model, `(N,)`, or `(N, classes)`.
        new: The same of the new one.
        weights: Array `(N,)`.
        groups: Array `(N,)` of 0, 1, ..., whose rows depend on each other;
            `None` where all rows are independent.
    """

    name: str
    kind: Literal["binary", "regression", "multiclass"]
    labels: Floats
    old: Floats
    new: Floats
    weights: Floats
    groups: npt.NDArray[np.int64] | None

    def losses(self, predictions: Floats) -> Floats:
        """Returns the loss of each row, `(N,)`: that of `metrics.json`.

        Args:
            predictions: `old` or `new`.
        """
        if self.kind == "regression":
            return np.square(predictions - self.labels)
        if self.kind == "binary":
            likelihood = np.where(self.labels > 0, predictions, 1 - predictions)
        else:
            classes = self.labels.astype(np.int64)
            likelihood = predictions[np.arange(len(classes)), classes]
        return -np.log(bounded(likelihood))

    def of_rows(self, chosen: npt.NDArray[np.bool_]) -> "ScoredTask":
        """Returns the task on some of its rows."""
        return ScoredTask(
            self.name,
            self.kind,
            self.labels[chosen],
            self.old[chosen],
            self.new[chosen],
            self.weights[chosen],
            None if self.groups is None else self.groups[chosen],
        )
