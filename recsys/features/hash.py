from collections.abc import Collection
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from siphash24 import siphash24

from recsys.errors.bounds import Buckets
from recsys.features.feature import NONE
from recsys.features.feature import Others
from recsys.features.feature import RawEncoder
from recsys.features.feature import State
from recsys.features.id_values import as_ids
from recsys.features.one_id import OneId
from recsys.features.one_id import OneRow

if TYPE_CHECKING:
    import tensorflow as tf

    from recsys.features.onnx_graph import OnnxGraph
    from recsys.features.onnx_graph import OnnxValue

# Those of SipHash-2-4, whose key has two numbers of 64 bits.
_KEY = (0, 0)


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
        dim: Width of the vectors; that of the model unless given.
    """

    type = "hash"

    buckets: Buckets

    def fit(
        self, parts: Iterable[pd.Series], others: Others = NONE
    ) -> "FittedHash":
        return FittedHash(self, "int64" if _all_integers(parts) else "string")

    def restore(self, state: State, others: Others = NONE) -> "FittedHash":
        return FittedHash(self, **state)


class FittedHash(OneRow):
    """Buckets of ids.

    Args:
        kind: What it is declared as.
        raw_dtype: Whether the ids of the training split are integers or
            strings: `"int64"` or `"string"`.
    """

    kind: Hash

    def __init__(self, kind: Hash, raw_dtype: str) -> None:
        super().__init__(kind)
        self.raw_dtype = raw_dtype
        self.num_rows = kind.buckets + 1  # Row 0 is for missing ids.
        self.dim = kind.dim

    def grown(
        self, parts: Iterable[pd.Series], others: Others = NONE
    ) -> "FittedHash":
        """Takes strings once some of the ids are; their buckets stay."""
        integers = self.raw_dtype == "int64" and _all_integers(parts)
        return FittedHash(self.kind, "int64" if integers else "string")

    def encode(self, column: pd.Series) -> np.ndarray:
        # A missing one has the code -1.
        codes, ids = pd.factorize(as_ids(column, "ids"))
        buckets = [0, *(self._bucket(id) for id in ids)]
        return np.asarray(buckets, np.int32)[codes + 1]

    def _bucket(self, id: object) -> int:
        key = b"".join(half.to_bytes(8, "little") for half in _KEY)
        digest = siphash24(str(id).encode(), key=key).digest()
        return 1 + int.from_bytes(digest, "little") % self.kind.buckets

    def raw_encoder(self) -> RawEncoder:
        import tensorflow as tf

        def encode(ids: "tf.Tensor") -> "tf.Tensor":
            texts = tf.strings.as_string(ids)
            buckets = tf.strings.to_hash_bucket_strong(
                texts, self.kind.buckets, _KEY
            )
            missing = tf.equal(ids, tf.constant(self.raw_missing()))
            return tf.where(missing, 0, tf.cast(buckets, tf.int32) + 1)

        return encode, []

    def encode_onnx(self, graph: "OnnxGraph", raw: str) -> "list[OnnxValue]":
        from recsys.features.onnx_graph import OnnxValue
        from recsys.features.onnx_hash import hash_integers
        from recsys.features.onnx_hash import hash_texts

        texts = self.raw_dtype == "string"
        hashes = (hash_texts if texts else hash_integers)(graph, raw)
        buckets = graph.add(
            "Mod",
            graph.cast(hashes, "uint64"),
            graph.constant(self.kind.buckets, "uint64"),
        )
        one = graph.constant(1, "int32")
        buckets = graph.add("Add", graph.cast(buckets, "int32"), one)
        dtype = "object" if texts else self.raw_dtype
        missing = graph.constant(self.raw_missing()[0], dtype)
        buckets = graph.add(
            "Where",
            graph.add("Equal", raw, missing),
            graph.constant(0, "int32"),
            buckets,
        )
        return [OnnxValue(buckets, "int32", (None,))]

    def sample(
        self, generator: np.random.Generator, count: int
    ) -> Collection[object]:
        numbers = generator.integers(-(10**12), 10**12, count).tolist()
        if self.raw_dtype == "int64":
            return numbers
        return [None if n % 7 == 0 else f"é{n}" for n in numbers]

    def get_state(self) -> State:
        return {"raw_dtype": self.raw_dtype}


def _all_integers(parts: Iterable[pd.Series]) -> bool:
    kinds = [as_ids(part, "ids").dtype for part in parts]
    return all(map(pd.api.types.is_integer_dtype, kinds))
