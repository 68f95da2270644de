from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from recsys.column_values import as_numbers
from recsys.features.feature import Feature
from recsys.features.fitted_feature import FittedFeature


class Number(Feature):
    """Numbers, `float64` with NaN where missing.

    A model sees how many standard deviations of the training split a number
    is above its mean; a missing number counts as the mean.
    """

    type = "number"

    def check(self, column: "pd.Series[Any]", file: object) -> "pd.Series[Any]":
        return as_numbers(column, file)

    def fit(self, parts: Iterable["pd.Series[Any]"]) -> "FittedNumber":
        moments = [_moments(part) for part in parts]
        count, mean, variance = 0, 0.0, 1.0  # Of nothing, a standard normal.
        for moment in moments:
            if moment[0]:
                count, mean, variance = (
                    _merged((count, mean, variance), moment)
                    if count
                    else moment
                )
        return FittedNumber(self, mean, variance)

    def restore(self, state: dict[str, Any]) -> "FittedNumber":
        return FittedNumber(self, **state)


class FittedNumber(FittedFeature):
    """A number with the mean and the variance of the training split.

    Args:
        kind: What it is declared as.
        mean: Float.
        variance: Float.
    """

    raw_dtype = "float32"

    def __init__(self, kind: Number, mean: float, variance: float) -> None:
        super().__init__(kind)
        self.mean = mean
        self.variance = variance

    def encode(self, column: "pd.Series[Any]") -> Any:
        return column.to_numpy(np.float32)

    def width(self, embedding_dim: int) -> int:
        return 1

    def vectors(self, values: Any, rows: Any) -> Any:
        import keras
        from keras import ops

        deviation = np.sqrt(np.float32(self.variance))
        deviation = np.maximum(deviation, np.float32(keras.config.epsilon()))
        numbers = (values[:, None] - np.float32(self.mean)) / deviation
        return ops.where(ops.isnan(numbers), 0.0, numbers)

    def raw_encoder(self) -> tuple[Callable[[Any], Any], list[Any]]:
        return lambda numbers: numbers, []

    def sample(self, generator: np.random.Generator, count: int) -> Any:
        numbers = generator.normal(self.mean, self.variance**0.5, count)
        numbers[::5] = np.nan
        return numbers

    def get_state(self) -> dict[str, Any]:
        return {"mean": self.mean, "variance": self.variance}


Moments = tuple[int, float, float]


def _moments(column: "pd.Series[Any]") -> Moments:
    """How many numbers there are, their mean and their variance."""
    numbers = column.dropna().to_numpy(np.float64)
    if not len(numbers):
        return 0, 0.0, 0.0
    return len(numbers), float(numbers.mean()), float(numbers.var())


def _merged(one: Moments, other: Moments) -> Moments:
    """The moments of two sets of numbers together (Chan et al. 1979)."""
    count = one[0] + other[0]
    share = other[0] / count
    step = other[1] - one[1]
    within = one[2] * (1 - share) + other[2] * share
    return count, one[1] + step * share, within + step**2 * share * (1 - share)
