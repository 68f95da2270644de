from collections.abc import Iterable
from typing import TYPE_CHECKING
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import model_validator

from recsys.errors.bounds import MOST_BUCKETS
from recsys.errors.bounds import Buckets
from recsys.features.feature import NONE
from recsys.features.feature import FittedFeatures
from recsys.features.feature import RawEncoder
from recsys.features.feature import State
from recsys.features.hash_pair import HashPair
from recsys.features.hashed_id import HashedId
from recsys.features.hashed_id import all_integers
from recsys.features.one_id import OneId
from recsys.features.one_id import OneRow

if TYPE_CHECKING:
    import tensorflow as tf

    from recsys.features.onnx_graph import OnnxGraph
    from recsys.features.onnx_graph import OnnxValue


class Hash(OneId):
    """Ids without a vocabulary: each goes to one of a number of buckets.

    A model learns a vector for each bucket, which all ids in it have, whether
    training has seen them or not, and one for missing ids. An id is hashed as
    the text that it is written as, in UTF-8, by SipHash-2-4 with a key of
    zeros, as `tf.strings.to_hash_bucket_strong` does (Aumasson, Bernstein:
    SipHash: a fast short-input PRF, 2012; Weinberger et al.: Feature Hashing
    for Large Scale Multitask Learning, 2009).

    Args:
        buckets: How many buckets.
        functions: How many hash functions: 1 (default), or 2, for the sum of
            the vectors of two buckets, as `HashPair` says. That is twice as
            many vectors, and gates cannot route by the feature.
        dim: Width of the vectors; that of the model unless given.
    """

    type = "hash"

    buckets: Buckets
    functions: Literal[1, 2] = 1

    @model_validator(mode="after")
    def _check_buckets(self) -> "Hash":
        most = MOST_BUCKETS // self.functions
        if self.buckets > most:
            raise ValueError(
                f"expected at most {most} buckets for {self.functions} "
                f"functions. Received: buckets={self.buckets}"
            )
        return self

    @property
    def routable(self) -> bool:
        return self.functions == 1

    def fit(
        self, parts: Iterable[pd.Series], owners: FittedFeatures = NONE
    ) -> HashedId:
        return self.restore(
            {"raw_dtype": "int64" if all_integers(parts) else "string"}
        )

    def restore(self, state: State, owners: FittedFeatures = NONE) -> HashedId:
        fitted = HashBucket if self.functions == 1 else HashPair
        return fitted(self, self.buckets, **state)


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
