from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import Field

from recsys.columns.column_values import as_numbers
from recsys.columns.column_values import refuse
from recsys.errors.bounds import LARGEST_WIDTH
from recsys.errors.bounds import Width
from recsys.features.feature import NONE
from recsys.features.feature import Feature
from recsys.features.feature import FittedFeature
from recsys.features.feature import FittedFeatures
from recsys.features.feature import RawEncoder
from recsys.features.feature import Rows
from recsys.features.feature import State

if TYPE_CHECKING:
    import keras

    from keras_moe.types import Tensor
    from recsys.features.onnx_graph import OnnxGraph
    from recsys.features.onnx_graph import OnnxValue


# Of a mean and a logarithm in float64, relative to the numbers.
_ROUNDING = 16 * float(np.finfo(np.float64).eps)
# Beyond so many the column is continuous, and further ones say little more.
MOST = 1 << 18


class Number(Feature):
    """Numbers, `float64` with NaN where missing.

    A model sees how many standard deviations of the training split a number
    is above its mean; a missing number counts as the mean. Where all numbers
    of the training split are the same, it sees the difference from them.

    Beside that it learns a vector for each bucket between quantiles of the
    different numbers, and one for missing numbers. Each of few numbers has a
    bucket of its own, however rare: what an exact amount means, such as that
    of a tax bracket, is out of reach for one input with a weight.

    Args:
        transform: What is done to the numbers before that: `"log1p"` takes the
            logarithm of 1 + the number, which must not be negative. Nothing
            unless given.
        indicator: Whether the model also sees, as 1, where a number is
            missing. Defaults to `False`.
        max_buckets: How many buckets there may be. Defaults to 128; none
            with 0.
        dim: Width of their vectors. Defaults to 8.

    References:
        Gorishniy, Rubachev, Babenko. On Embeddings for Numerical Features in
        Tabular Deep Learning. NeurIPS 2022: vectors of bins beat numbers,
        there with quantiles of the rows.
    """

    type = "number"

    transform: Literal["log1p"] | None = None
    indicator: bool = False
    max_buckets: int = Field(default=128, ge=0, le=LARGEST_WIDTH)
    dim: Width = 8

    def check(self, column: pd.Series, file: object) -> pd.Series:
        numbers = as_numbers(column, file)
        if self.transform == "log1p":
            refuse(column, numbers < 0, "a number of at least 0", file)
        return numbers

    def fit(
        self, parts: Iterable[pd.Series], owners: FittedFeatures = NONE
    ) -> "FittedNumber":
        moments, distinct = [], DistinctNumbers()
        for part in parts:
            moments.append(_moments(self._transformed(part)))
            if self.max_buckets:
                distinct.add(part)
        count, mean, variance = 0, 0.0, 1.0  # Of nothing, a standard normal.
        for moment in moments:
            if moment[0]:
                count, mean, variance = (
                    _merged((count, mean, variance), moment)
                    if count
                    else moment
                )
        borders = distinct.borders(self.max_buckets)
        return FittedNumber(self, mean, variance, borders)

    def _transformed(self, column: pd.Series) -> pd.Series:
        return column if self.transform is None else np.log1p(column)

    def restore(
        self, state: State, owners: FittedFeatures = NONE
    ) -> "FittedNumber":
        return FittedNumber(self, **state)


class FittedNumber(FittedFeature):
    """A number with the mean and the variance of the training split.

    Args:
        kind: What it is declared as.
        mean: Float, of what the transform returns.
        variance: Float, likewise.
        borders: Numbers in ascending order, between which the buckets are;
            there are none without borders, as in models of before.
    """

    kind: Number
    raw_dtype = "float32"

    def __init__(
        self,
        kind: Number,
        mean: float,
        variance: float,
        borders: Sequence[float] = (),
    ) -> None:
        super().__init__(kind)
        self.mean = mean
        self.variance = variance
        self.borders = list(borders)
        if borders:
            self.num_rows = len(borders) + 2  # Row 0 is for missing numbers.
            self.dim = kind.dim

    @property
    def scale(self) -> np.float32:
        """The divisor of values: the deviation, or 1 for constant ones.

        A deviation below the step from the mean to the next float32 is that
        step, since the model's numbers are no finer.
        """
        deviation = self.variance**0.5
        rounding = _ROUNDING * abs(self.mean)  # All that a constant can have.
        if deviation <= max(rounding, float(np.finfo(np.float32).tiny)):
            return np.float32(1.0)
        return np.maximum(
            np.float32(deviation), np.spacing(np.float32(abs(self.mean)))
        )

    def encode(self, column: pd.Series) -> np.ndarray:
        return column.to_numpy(np.float32)

    def ids(self, values: "Tensor") -> "Tensor":
        from keras import ops

        # Few enough to compare with each: ONNX has no search.
        borders = np.array(self.borders, np.float32)
        reached = ops.greater_equal(values[:, None], borders)
        buckets = ops.sum(ops.cast(reached, "int32"), axis=1) + 1
        return ops.where(ops.isnan(values), 0, buckets)

    def width(self, dim: int) -> int:
        numbers = 2 if self.kind.indicator else 1
        return numbers + dim if self.borders else numbers

    def vectors(
        self,
        values: "Tensor",
        rows: Rows = None,
        layer: "keras.layers.Layer | None" = None,
        query: "Tensor | None" = None,
    ) -> "Tensor":
        from keras import ops

        missing = ops.isnan(values)[:, None]
        numbers = values[:, None]
        if self.kind.transform == "log1p":
            numbers = ops.log1p(numbers)
        numbers = (numbers - np.float32(self.mean)) / self.scale
        parts = [ops.where(missing, 0.0, numbers)]
        if self.kind.indicator:
            parts.append(ops.cast(missing, "float32"))
        if self.borders:
            parts.append(ops.cast(rows, "float32"))
        return ops.concatenate(parts, axis=-1)

    def raw_encoder(self) -> RawEncoder:
        return lambda numbers: numbers, []

    def encode_onnx(self, graph: "OnnxGraph", raw: str) -> "list[OnnxValue]":
        from recsys.features.onnx_graph import OnnxValue

        return [OnnxValue(raw, "float32", (None,))]

    def sample(
        self, generator: np.random.Generator, count: int
    ) -> Collection[object]:
        numbers = generator.normal(self.mean, self.variance**0.5, count)
        if self.kind.transform == "log1p":
            numbers = np.expm1(np.clip(numbers, 0, None))
        numbers[: len(self.borders)] = self.borders[:count]
        numbers[::5] = np.nan
        return numbers

    def get_state(self) -> State:
        return {
            "mean": self.mean,
            "variance": self.variance,
            "borders": self.borders,
        }


Moments = tuple[int, float, float]


def _moments(column: pd.Series) -> Moments:
    """Number, mean and variance of the values."""
    numbers = column.dropna().to_numpy(np.float64)
    if not len(numbers):
        return 0, 0.0, 0.0
    # Of numbers that are all the same, the variance is exactly 0.
    above = numbers - numbers[0]
    return len(numbers), float(numbers[0] + above.mean()), float(above.var())


def _merged(a: Moments, b: Moments) -> Moments:
    """The moments of two sets of numbers together (Chan et al. 1979)."""
    count = a[0] + b[0]
    share = b[0] / count
    step = b[1] - a[1]
    within = a[2] * (1 - share) + b[2] * share
    return count, a[1] + step * share, within + step**2 * share * (1 - share)


class DistinctNumbers:
    """The different numbers of a column that comes in parts.

    They are float32, as models compare them, and all that the column has up
    to 262,144; from then on, further parts are left out.

    Example:
    >>> distinct = DistinctNumbers()
    >>> distinct.add(pd.Series([0.0, 0.0, 5.0, 0.0]))
    >>> distinct.add(pd.Series([7.0, float("nan"), 9.0]))
    >>> distinct.borders(10), distinct.borders(2)
    ([5.0, 7.0, 9.0], [7.0])
    """

    def __init__(self) -> None:
        self._numbers = np.zeros(0, np.float32)

    def add(self, part: pd.Series) -> None:
        """Takes in the numbers of a part, of which missing ones are none."""
        if len(self._numbers) < MOST:
            numbers = part.dropna().to_numpy(np.float32)
            self._numbers = np.union1d(self._numbers, numbers)

    def borders(self, max_buckets: int) -> list[float]:
        """Returns where buckets begin that share the numbers equally.

        Args:
            max_buckets: How many buckets there may be, each with its smallest
                number in it.

        Returns:
            Numbers of the column, ascending: of each bucket but the first.
        """
        buckets = min(max_buckets, len(self._numbers))
        starts = np.arange(1, buckets) * len(self._numbers) // max(buckets, 1)
        return self._numbers[starts].tolist()
