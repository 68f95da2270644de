from dataclasses import dataclass
from typing import TYPE_CHECKING

from recsys.metrics.weighted_mean import weighted_mean

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


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

    labels: "npt.NDArray[np.float64]"
    predictions: "npt.NDArray[np.float64]"
    weights: "npt.NDArray[np.float64] | None" = None

    def mean(self, values: "npt.NDArray[np.float64]") -> float:
        """The weighted mean of values `(N,)`."""
        return weighted_mean(values, self.weights)
