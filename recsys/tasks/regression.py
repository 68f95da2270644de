from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from recsys.columns.column_values import as_numbers
from recsys.columns.column_values import refuse
from recsys.errors import DataError
from recsys.metrics.labelled_rows import weighted_mean
from recsys.tasks.row_roles import ALIKE
from recsys.tasks.row_roles import RowRoles
from recsys.tasks.task import Metrics
from recsys.tasks.task import Task

if TYPE_CHECKING:
    import keras

LARGEST_LABEL = 1e15  # Sums of squares of larger ones overflow in float32.
# Float32 tells numbers apart that differ by 2^-24 of their size. Labels that
# spread over less than 16 such steps cannot be learned in it.
_SMALLEST_SPREAD = 2.0**-20
_TINY = float(np.finfo(np.float32).tiny)


class Regression(Task):
    """Numbers up to 1e15 as labels, `float64` with NaN where missing.

    Predictions and metrics are in the label's own unit. The loss is the mean
    squared error; that of a standardised task divides it by the variance of
    the training split's labels.
    """

    type = "regression"
    of_images = False
    standardizable = True
    squares_errors = True

    def check(self, column: pd.Series, file: object) -> pd.Series:
        labels = as_numbers(column, file)
        too_large = labels.abs() > LARGEST_LABEL
        expected = f"a number of at most {LARGEST_LABEL:.0e} in size"
        refuse(column, too_large, expected, file)
        return labels

    def scale(
        self,
        labels: np.ndarray,
        task: str,
        source: str,
        weights: np.ndarray | None = None,
    ) -> float:
        """Returns the labels' standard deviation, 1 if they are all the same.

        Args:
            labels: As in `Task.scale`.
            task: As in `Task.scale`.
            source: As in `Task.scale`.
            weights: As in `Task.scale`.

        Raises:
            DataError: Labels are so close together, compared with their size,
                that float32 cannot tell them apart.
        """
        # Rounding gives equal labels a deviation that is not quite 0.
        if labels.min() == labels.max():
            return 1.0
        scale, largest = _deviation(labels, weights), np.abs(labels).max()
        if scale < max(_SMALLEST_SPREAD * largest, _TINY):
            raise DataError.at(
                source,
                "labels whose differences float32 can represent; subtract a "
                "constant from them, or change their unit",
                f"labels of up to {largest:g} with a standard deviation of "
                f"{scale:g}",
                column=task,
            )
        return scale

    def unit(self, scale: float | None = None) -> str:
        return "squared label" if scale is None else "variances of the labels"

    def loss(
        self, reduction: str | None, scale: float | None = None
    ) -> "keras.losses.Loss":
        import keras

        from recsys.tasks.standardized_squared_error import (
            StandardizedSquaredError,
        )

        if scale is None:
            return keras.losses.MeanSquaredError(reduction=reduction)
        return StandardizedSquaredError(scale, reduction)

    def measure(
        self,
        labels: np.ndarray,
        predictions: np.ndarray,
        scale: float | None = None,
        roles: RowRoles = ALIKE,
    ) -> Metrics:
        metrics = super().measure(labels, predictions, scale, roles)
        if scale is not None:
            mse = metrics["mse"]
            metrics["standardized_loss"] = (
                None if mse is None else mse / scale**2
            )
        return metrics


def _deviation(labels: np.ndarray, weights: np.ndarray | None) -> float:
    if weights is None:
        return float(labels.std())
    mean = weighted_mean(labels, weights)
    return weighted_mean(np.square(labels - mean), weights) ** 0.5
