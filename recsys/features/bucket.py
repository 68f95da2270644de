from collections.abc import Collection
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from pydantic import Field
from pydantic import model_validator

from recsys.columns.column_values import as_numbers
from recsys.errors.bounds import LARGEST_WIDTH
from recsys.errors.bounds import Width
from recsys.errors.shown import shown
from recsys.features.feature import NONE
from recsys.features.feature import Feature
from recsys.features.feature import FittedFeatures
from recsys.features.feature import RawEncoder
from recsys.features.feature import State
from recsys.features.one_id import OneRow
from recsys.features.value_counts import ValueCounts

if TYPE_CHECKING:
    import tensorflow as tf

    from recsys.features.onnx_graph import OnnxGraph
    from recsys.features.onnx_graph import OnnxValue


class Bucket(Feature):
    """Numbers of which a model sees in which bucket they are.

    It learns a vector for each bucket, and one for missing numbers. Bucket i
    reaches from border i - 1, which is in it, to border i, which is not.

    Args:
        quantiles: How many buckets with about as many rows of the training
            split each; fewer where a number is in many rows. Defaults to 10,
            unless there are borders.
        borders: Numbers in ascending order, between which the buckets are.
        dim: Width of the vectors; that of the model unless given.
    """

    type = "bucket"

    quantiles: int | None = Field(default=None, ge=2, le=LARGEST_WIDTH)
    borders: list[float] | None = Field(
        default=None, min_length=1, max_length=LARGEST_WIDTH
    )
    dim: Width | None = None

    @model_validator(mode="after")
    def _check_borders(self) -> "Bucket":
        borders = self.borders
        if borders is None:
            return self
        if self.quantiles is not None:
            raise ValueError("expected quantiles or borders. Received: both")
        if not np.isfinite(borders).all() or (np.diff(borders) <= 0).any():
            raise ValueError(
                "expected borders in ascending order. "
                f"Received: {shown(borders)}"
            )
        return self

    def check(self, column: pd.Series, file: object) -> pd.Series:
        return as_numbers(column, file)

    def fit(
        self, parts: Iterable[pd.Series], owners: FittedFeatures = NONE
    ) -> "FittedBucket":
        if self.borders is not None:
            return FittedBucket(self, self.borders)
        # The model compares in float32, which keeps the order.
        with ValueCounts() as counts:
            for part in parts:
                counts.add(part.astype("float32"))
            shares = np.linspace(0, 1, (self.quantiles or 10) + 1)[1:-1]
            return FittedBucket(self, _quantiles(counts, shares))

    def restore(
        self, state: State, owners: FittedFeatures = NONE
    ) -> "FittedBucket":
        return FittedBucket(self, **state)


class FittedBucket(OneRow):
    """Buckets between the borders of the training split.

    Args:
        kind: What it is declared as.
        borders: Numbers in ascending order.
    """

    raw_dtype = "float32"

    def __init__(self, kind: Bucket, borders: list[float]) -> None:
        super().__init__(kind)
        self.borders = borders
        self.num_rows = len(borders) + 2  # Row 0 is for missing numbers.
        self.dim = kind.dim

    def encode(self, column: pd.Series) -> np.ndarray:
        numbers = column.to_numpy(np.float32)
        borders = np.asarray(self.borders, np.float32)
        buckets = np.searchsorted(borders, numbers, side="right") + 1
        return np.where(np.isnan(numbers), 0, buckets).astype(np.int32)

    def raw_encoder(self) -> RawEncoder:
        import tensorflow as tf

        borders = tf.constant(self.borders, tf.float32)

        def encode(numbers: "tf.Tensor") -> "tf.Tensor":
            buckets = tf.searchsorted(borders, numbers, side="right") + 1
            return tf.where(tf.math.is_nan(numbers), 0, buckets)

        return encode, []

    def encode_onnx(self, graph: "OnnxGraph", raw: str) -> "list[OnnxValue]":
        from recsys.features.onnx_graph import OnnxValue

        # ONNX has no search: each number is compared with all borders.
        axis = graph.constant([1])
        borders = graph.constant([self.borders], "float32")
        reached = graph.add(  # (batch, borders)
            "GreaterOrEqual", graph.add("Unsqueeze", raw, axis), borders
        )
        count = graph.add(
            "ReduceSum", graph.cast(reached, "int32"), axis, keepdims=0
        )
        buckets = graph.add(
            "Where",
            graph.add("IsNaN", raw),
            graph.constant(0, "int32"),
            graph.add("Add", count, graph.constant(1, "int32")),
        )
        return [OnnxValue(buckets, "int32", (None,))]

    def sample(
        self, generator: np.random.Generator, count: int
    ) -> Collection[object]:
        ends = np.array([*self.borders, 0.0])
        spread = np.ptp(ends) + 1
        numbers = generator.uniform(
            ends.min() - spread, ends.max() + spread, count
        )
        numbers[: len(self.borders)] = self.borders[:count]
        numbers[::5] = np.nan
        return numbers.astype(np.float32).astype(np.float64)

    def get_state(self) -> State:
        return {"borders": self.borders}


def _quantiles(counts: ValueCounts, shares: np.ndarray) -> list[float]:
    """The different quantiles of numbers, each of which is one of them.

    Args:
        counts: How often each number is there.
        shares: Array of shares of the numbers.
    """
    # As method "higher" of `np.quantile` has it.
    places = np.ceil((counts.num_rows - 1) * shares)
    quantiles: dict[float, None] = {}
    before = 0
    for part in counts.sorted():
        ends = before + part.cumsum().to_numpy()
        positions = np.searchsorted(ends, places, side="right")
        here = (places >= before) & (positions < len(part))
        quantiles |= dict.fromkeys(
            part.index.to_numpy()[positions[here]].tolist()
        )
        before = ends[-1]
    return list(quantiles)
