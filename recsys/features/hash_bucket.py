from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from recsys.features.feature import RawEncoder
from recsys.features.hashed_id import HashedId
from recsys.features.one_id import OneId
from recsys.features.one_id import OneRow

if TYPE_CHECKING:
    import tensorflow as tf

    from recsys.features.onnx_graph import OnnxGraph
    from recsys.features.onnx_graph import OnnxValue


class HashBucket(HashedId, OneRow):
    """One bucket for each id, with a row of the table; row 0 is for none.

    Args:
        kind: What it is declared as.
        buckets: How many buckets.
        raw_dtype: As in `HashedId`.
    """

    def __init__(self, kind: OneId, buckets: int, raw_dtype: str) -> None:
        super().__init__(kind, buckets, raw_dtype)
        self.num_rows = buckets + 1

    def encode(self, column: pd.Series) -> np.ndarray:
        numbers, is_missing = self.hashed(column, self.buckets)
        return np.where(is_missing, 0, numbers + 1).astype(np.int32)

    def raw_encoder(self) -> RawEncoder:
        import tensorflow as tf

        numbers_of = self.raw_hashes(self.buckets)

        def encode(ids: "tf.Tensor") -> "tf.Tensor":
            numbers, is_missing = numbers_of(ids)
            return tf.where(is_missing, 0, tf.cast(numbers, tf.int32) + 1)

        return encode, []

    def encode_onnx(self, graph: "OnnxGraph", raw: str) -> "list[OnnxValue]":
        from recsys.features.onnx_graph import OnnxValue

        numbers, is_missing = self.onnx_hashes(graph, raw, self.buckets)
        zero, one = (graph.constant(number, "int32") for number in (0, 1))
        rows = graph.add("Add", graph.cast(numbers, "int32"), one)
        rows = graph.add("Where", is_missing, zero, rows)
        return [OnnxValue(rows, "int32", (None,))]
