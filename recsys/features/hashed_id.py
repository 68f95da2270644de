from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from typing import TYPE_CHECKING
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from siphash24 import siphash24

from recsys.features.feature import NONE
from recsys.features.feature import FittedFeature
from recsys.features.feature import FittedFeatures
from recsys.features.feature import State
from recsys.features.id_values import as_ids
from recsys.features.one_id import OneId

if TYPE_CHECKING:
    import tensorflow as tf

    from recsys.features.onnx_graph import OnnxGraph

# Those of SipHash-2-4, whose key has two numbers of 64 bits.
_KEY = (0, 0)

# A function of raw ids, a tensor `(batch,)`, to their int64 numbers `(batch,)`
# and where they are missing.
RawNumbers = Callable[["tf.Tensor"], "tuple[tf.Tensor, tf.Tensor]"]


class HashedId(FittedFeature):
    """An id without a vocabulary: the hash of its text is its number.

    Args:
        kind: What it is declared as.
        buckets: How many buckets a hash function has.
        raw_dtype: Whether the ids of the training split are integers or
            strings: `"int64"` or `"string"`.
    """

    kind: OneId

    def __init__(self, kind: OneId, buckets: int, raw_dtype: str) -> None:
        super().__init__(kind)
        self.dim = kind.dim
        self.buckets = buckets
        self.raw_dtype = raw_dtype

    def grown(
        self, parts: Iterable[pd.Series], owners: FittedFeatures = NONE
    ) -> Self:
        """Takes strings once some of the ids are; their buckets stay."""
        integers = self.raw_dtype == "int64" and all_integers(parts)
        dtype = "int64" if integers else "string"
        return type(self)(self.kind, self.buckets, dtype)

    def hashed(
        self, column: pd.Series, count: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Returns numbers of ids and which are missing.

        Args:
            column: As `check` of the kind returns it.
            count: How many numbers there are, up to 2**62.

        Returns:
            Array `(rows,)` of numbers from 0 to `count`, 0 where the id is
            missing, and a boolean array `(rows,)`.
        """
        # A missing one has the code -1.
        codes, ids = pd.factorize(as_ids(column, "ids"))
        numbers = [_siphash(id) % count for id in ids]
        return np.asarray([*numbers, 0], np.int64)[codes], codes < 0

    def raw_hashes(self, count: int) -> RawNumbers:
        """Returns `hashed` as a SavedModel does it, under TensorFlow."""
        import tensorflow as tf

        def numbers(ids: "tf.Tensor") -> "tuple[tf.Tensor, tf.Tensor]":
            texts = tf.strings.as_string(ids)
            hashes = tf.strings.to_hash_bucket_strong(texts, count, _KEY)
            return hashes, tf.equal(ids, tf.constant(self.raw_missing()))

        return numbers

    def onnx_hashes(
        self, graph: "OnnxGraph", raw: str, count: int
    ) -> tuple[str, str]:
        """Adds `hashed` to an ONNX graph, and returns the outputs' names.

        Args:
            graph: Where the nodes go.
            raw: Name of the ids, a tensor `(batch,)`.
            count: As in `hashed`.
        """
        from recsys.features.onnx_hash import hash_integers
        from recsys.features.onnx_hash import hash_texts

        texts = self.raw_dtype == "string"
        hashes = (hash_texts if texts else hash_integers)(graph, raw)
        numbers = graph.add(
            "Mod", graph.cast(hashes, "uint64"), graph.constant(count, "uint64")
        )
        dtype = "object" if texts else self.raw_dtype
        missing = graph.constant(self.raw_missing()[0], dtype)
        return graph.cast(numbers, "int64"), graph.add("Equal", raw, missing)

    def sample(
        self, generator: np.random.Generator, count: int
    ) -> Collection[object]:
        numbers = generator.integers(-(10**12), 10**12, count).tolist()
        if self.raw_dtype == "int64":
            return numbers
        return [None if n % 7 == 0 else f"é{n}" for n in numbers]

    def get_state(self) -> State:
        return {"raw_dtype": self.raw_dtype}


def all_integers(parts: Iterable[pd.Series]) -> bool:
    """Returns whether all ids of a column are integers of 64 bits."""
    kinds = [as_ids(part, "ids").dtype for part in parts]
    return all(map(pd.api.types.is_integer_dtype, kinds))


def _siphash(id: object) -> int:
    key = b"".join(half.to_bytes(8, "little") for half in _KEY)
    return int.from_bytes(
        siphash24(str(id).encode(), key=key).digest(), "little"
    )
