from dataclasses import dataclass

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

    labels: npt.NDArray[np.float64]
    predictions: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64] | None = None

    def mean(self, values: npt.NDArray[np.float64]) -> float:
        """The weighted mean of values `(N,)`."""
        return weighted_mean(values, self.weights)


def weighted_mean(values: np.ndarray, weights: np.ndarray | None) -> float:
    """Returns the mean of values `(rows,)`.

    Args:
        values: The values.
        weights: Array `(rows,)` with a positive sum; `None` where each row
            counts once.

    Example:
    >>> weighted_mean(np.array([1.0, 5.0]), np.array([3.0, 1.0]))
    2.0
    """
    if weights is None:
        return float(values.mean())
    return float(np.average(values, weights=weights))
