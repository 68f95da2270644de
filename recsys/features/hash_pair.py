from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from recsys.errors import DataError
from recsys.features.feature import RawEncoder
from recsys.features.feature import Rows
from recsys.features.feature import check_numbered
from recsys.features.hashed_id import HashedId
from recsys.features.one_id import OneId

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from keras_moe.types import Tensor
    from recsys.features.onnx_graph import OnnxGraph
    from recsys.features.onnx_graph import OnnxValue


class HashPair(HashedId):
    """Two buckets for each id: the remainder and the quotient of its hash.

    With m buckets, an id of hash h has one of m² numbers, h mod m² = q m + r.
    Its vector is the sum of two rows: that of r, one of m, which it would have
    with one function, and that of q, one of another m. So two ids of one vector
    have one number, which is m times less likely than one bucket. A missing id
    has row 0 twice.

    Args:
        kind: What it is declared as.
        buckets: How many buckets, for each of the two.
        raw_dtype: As in `HashedId`.

    References:
        Shi, Mudigere, Naumov, Yang. Compositional Embeddings Using
        Complementary Partitions for Memory-Efficient Recommendation Systems.
        KDD 2020, section 3 (the quotient-remainder trick, with a sum).
    """

    def __init__(self, kind: OneId, buckets: int, raw_dtype: str) -> None:
        super().__init__(kind, buckets, raw_dtype)
        self.num_rows = 2 * buckets + 1
        self._count = buckets**2

    def encode(self, column: pd.Series) -> np.ndarray:
        numbers, is_missing = self.hashed(column, self._count)
        quotients, remainders = np.divmod(numbers, self.buckets)
        pairs = np.stack(  # (rows, 2)
            [1 + remainders, 1 + self.buckets + quotients], axis=1
        )
        return np.where(is_missing[:, None], 0, pairs).astype(np.int32)

    def check_encoded(self, name: str, values: np.ndarray) -> None:
        if values.shape[1:] != (2,):
            raise DataError.at(
                f"feature {name!r}", "two numbers per row", f"{values.shape}"
            )
        check_numbered(name, values, 0, 2 * self.buckets)

    def width(self, dim: int) -> int:
        return dim

    def vectors(
        self,
        values: "Tensor",
        rows: Rows = None,
        layer: "keras.layers.Layer | None" = None,
        query: "Tensor | None" = None,
    ) -> "Tensor":
        from keras import ops

        return ops.sum(rows, axis=1)  # (batch, 2, D) to (batch, D)

    def raw_encoder(self) -> RawEncoder:
        import tensorflow as tf

        numbers_of, buckets = self.raw_hashes(self._count), self.buckets

        def encode(ids: "tf.Tensor") -> "tf.Tensor":
            numbers, is_missing = numbers_of(ids)
            pairs = tf.stack(  # (batch, 2)
                [1 + numbers % buckets, 1 + buckets + numbers // buckets],
                axis=1,
            )
            pairs = tf.cast(pairs, tf.int32)
            return tf.where(is_missing[:, None], 0, pairs)

        return encode, []

    def encode_onnx(self, graph: "OnnxGraph", raw: str) -> "list[OnnxValue]":
        from recsys.features.onnx_graph import OnnxValue

        numbers, is_missing = self.onnx_hashes(graph, raw, self._count)
        buckets, axis = graph.constant(self.buckets), graph.constant([1])
        parts = [
            graph.add("Add", graph.add(part, numbers, buckets), first)
            for part, first in (
                ("Mod", graph.constant(1)),
                ("Div", graph.constant(1 + self.buckets)),
            )
        ]
        columns = [graph.add("Unsqueeze", part, axis) for part in parts]
        pairs = graph.add("Concat", *columns, axis=1)  # (batch, 2)
        pairs = graph.add(
            "Where",
            graph.add("Unsqueeze", is_missing, axis),
            graph.constant(0, "int32"),
            graph.cast(pairs, "int32"),
        )
        return [OnnxValue(pairs, "int32", (None, 2))]
