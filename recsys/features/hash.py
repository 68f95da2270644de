from collections.abc import Iterable
from typing import Literal

import pandas as pd
from pydantic import model_validator

from recsys.errors.bounds import MOST_BUCKETS
from recsys.errors.bounds import Buckets
from recsys.features.feature import NONE
from recsys.features.feature import Others
from recsys.features.feature import State
from recsys.features.hash_bucket import HashBucket
from recsys.features.hash_pair import HashPair
from recsys.features.hashed_id import HashedId
from recsys.features.hashed_id import all_integers
from recsys.features.one_id import OneId


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
        self, parts: Iterable[pd.Series], others: Others = NONE
    ) -> HashedId:
        return self.restore(
            {"raw_dtype": "int64" if all_integers(parts) else "string"}
        )

    def restore(self, state: State, others: Others = NONE) -> HashedId:
        fitted = HashBucket if self.functions == 1 else HashPair
        return fitted(self, self.buckets, **state)
