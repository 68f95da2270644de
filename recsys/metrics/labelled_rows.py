from dataclasses import dataclass
from typing import Any

from recsys.metrics.weighted_mean import weighted_mean


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows with a label and what is predicted: numbers, or classes.

    Attributes:
        labels: Float64 array `(N,)`, N at least 1; classes are 0, 1, ...
        predictions: Float64 array `(N,)`, or the probabilities of the classes
            `(N, classes)`.
        weights: Float64 array `(N,)` of numbers above 0, or `None` where each
            row counts once.
    """

    labels: Any
    predictions: Any
    weights: Any = None

    def mean(self, values: Any) -> float:
        """The weighted mean of values `(N,)`."""
        return weighted_mean(values, self.weights)
