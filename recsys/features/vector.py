from collections.abc import Collection
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from recsys.columns.column_values import as_numbers
from recsys.columns.column_values import refuse
from recsys.errors import DataError
from recsys.errors.bounds import Width
from recsys.features.feature import NONE
from recsys.features.feature import Feature
from recsys.features.feature import FittedFeature
from recsys.features.feature import FittedFeatures
from recsys.features.feature import RawEncoder
from recsys.features.feature import Rows
from recsys.features.feature import State
from recsys.features.list_values import flattened
from recsys.features.list_values import split

if TYPE_CHECKING:
    import keras

    from keras_moe.types import Tensor
    from recsys.features.onnx_graph import OnnxGraph
    from recsys.features.onnx_graph import OnnxValue


class Vector(Feature):
    """Lists of numbers of one length, such as those of a trained encoder.

    A model sees the numbers as they are; a missing vector is all zeros.

    Args:
        size: How many numbers.
    """

    type = "vector"

    size: Width

    def check(self, column: pd.Series, file: object) -> pd.Series:
        values, lengths = flattened(column, file)
        wrong = pd.Series((lengths != self.size) & (lengths != 0))
        refuse(column, wrong, f"{self.size} numbers", file)
        numbers = as_numbers(values, file, f"{self.size} finite numbers")
        if numbers.isna().any():
            raise DataError.at(
                file,
                f"{self.size} finite numbers",
                "a missing number",
                column=column.name,
                row=int(numbers.index[numbers.isna()][0]) + 1,
            )
        return split(numbers.to_numpy(), lengths, column.name)

    def fit(
        self, parts: Iterable[pd.Series], owners: FittedFeatures = NONE
    ) -> "FittedVector":
        return FittedVector(self)

    def restore(
        self, state: State, owners: FittedFeatures = NONE
    ) -> "FittedVector":
        return FittedVector(self)


class FittedVector(FittedFeature):
    """A vector, of which nothing is learned.

    Args:
        kind: What it is declared as.
    """

    kind: Vector
    raw_rank = 2
    raw_dtype = "float32"

    def __init__(self, kind: Vector) -> None:
        super().__init__(kind)

    @property
    def raw_shape(self) -> tuple[int | None, ...]:
        return None, self.kind.size

    def encode(self, column: pd.Series) -> np.ndarray:
        vectors = np.zeros((len(column), self.kind.size), np.float32)
        there = column.map(len).to_numpy(bool)
        if there.any():
            vectors[there] = np.stack(column[there].tolist())
        return vectors

    def check_encoded(self, name: str, values: np.ndarray) -> None:
        if values.shape[1:] != (self.kind.size,):
            raise DataError.at(
                f"feature {name!r}",
                f"{self.kind.size} numbers per row",
                f"{values.shape}",
            )

    def width(self, dim: int) -> int:
        return self.kind.size

    def vectors(
        self,
        values: "Tensor",
        rows: Rows = None,
        layer: "keras.layers.Layer | None" = None,
        query: "Tensor | None" = None,
    ) -> "Tensor":
        return values

    def raw(self, column: pd.Series) -> np.ndarray:
        return self.encode(column)

    def raw_missing(self) -> np.ndarray:
        return np.zeros((1, self.kind.size), np.float32)

    def raw_encoder(self) -> RawEncoder:
        import tensorflow as tf

        shape = (None, self.kind.size)
        return lambda vectors: tf.ensure_shape(vectors, shape), []

    def encode_onnx(self, graph: "OnnxGraph", raw: str) -> "list[OnnxValue]":
        from recsys.features.onnx_graph import OnnxValue

        # A wrong width is refused here.
        shape = graph.constant([0, self.kind.size])
        vectors = graph.add("Reshape", raw, shape)
        return [OnnxValue(vectors, "float32", (None, self.kind.size))]

    def sample(
        self, generator: np.random.Generator, count: int
    ) -> Collection[object]:
        numbers = generator.normal(size=(count, self.kind.size))
        return [
            [] if row % 5 == 0 else vector.astype(np.float32).astype(float)
            for row, vector in enumerate(numbers)
        ]

    def get_state(self) -> State:
        return {}
