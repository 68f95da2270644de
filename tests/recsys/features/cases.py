"""A column for each kind of feature, for the tests that all of them share."""

from typing import Any

import numpy as np
import pandas as pd

from recsys.features import Bucket
from recsys.features import Feature
from recsys.features import Hash
from recsys.features import Id
from recsys.features import Ids
from recsys.features import Number
from recsys.features import Sequence
from recsys.features import Vector
from recsys.features.feature import FittedFeature

INTEGERS = pd.Series([7, 9, 7, -3, None], dtype="Int64")
STRINGS = pd.Series(["b", "a", None, "é", "7"])
NUMBERS = pd.Series([1.0, None, -3.5, 1e6, 2.0])
VECTORS = [[1.0, 2.0], None, [0.0, -1.5], [3.0, 4.0], [5.0, 6.0]]
LISTS_OF_INTEGERS = [[7, 9, 7], [], None, [-3], [9, 9, 8, 7, 6]]
LISTS_OF_STRINGS = ["b|a", "", None, "é|7|b", "c"]
WEIGHTED_LISTS = ["b:0.5|a:2", "", None, "é:1e-3|7:0|b:.25|x:y:3", "c:1"]

LARGE = [2**53, 2**53 + 1, 2**63 - 1, 1 - 2**63, None]
BEYOND_64_BITS = [2**53 + 1, 2**63, 2**64 - 1, -(2**63), None]
LIKE_INTEGERS = ["7", "007", " 7", "7.0", None]
WITH_NUL = ["a", "a\0", "a\0b", "7\0", None]
LARGE_LISTS = [[2**53 + 1, 2**53], [], None, [2**63 - 1], [1 - 2**63, 2]]

# Ids of lists with weights, which are texts, where the known ids are integers.
KNOWN_INTEGERS = [7, -3, 0, 2**53, 2**53 + 1, 10**18, 2**63 - 1, 1 - 2**63]
WEIGHTED_TEXTS = [
    "|".join(f"{id}:2" for id in KNOWN_INTEGERS),
    f"{2**53 + 1}:1|guest:2|{10**18}:.5",
    "7:1|007:1| 7:1|7.0:1|+7:1|7e0:1|-0:1|-3:1|7 :1|0:1",
    f"{2**53 + 2}:1|{2**63}:1|{-(2**63)}:1|{10**30}:1|{2**63 - 1}:1",
]


def weighted_integers() -> FittedFeature:
    """A list of weighted ids that are those of a feature of integers."""
    owner = Id().fit([pd.Series(KNOWN_INTEGERS)])
    kind = Ids(weighted=True, pooling="sum", of="item")
    rows = kind.check(pd.Series(WEIGHTED_TEXTS), "x")
    return kind.fit([rows], {"item": owner})


KNOWN: "dict[str, pd.Series[Any]]" = {
    "int64": pd.Series([7, 0, -7, 2**53 - 1, 2**53 + 1, 2**63 - 1, 1 - 2**63]),
    "string": pd.Series(
        ["7", "007", "1e5", str(2**53 + 1), str(2**64), "é", "a", "a\0"]
    ),
}


def encoder_of(form: str, raw_dtype: str) -> FittedFeature:
    """A feature of each form that `ROWS` asks of, with the ids of `KNOWN`."""
    ids = KNOWN[raw_dtype]
    owner = Id().fit([ids])
    if form == "id":
        return owner
    if form == "hash":
        return Hash(buckets=1 << 20).fit([ids])
    lists = ids.map(lambda id: np.array([id]))
    if form == "list":
        return Sequence(length=3).fit([lists])
    kind = Ids(weighted=True, pooling="sum", of="item")
    items = kind.check(ids.map(lambda id: [f"{id}:1"]), "train")
    return kind.fit([items], {"item": owner})


CASES: dict[str, tuple[Feature, "pd.Series[Any]"]] = {
    "bucket of quantiles": (Bucket(quantiles=3), NUMBERS),
    "bucket between borders": (Bucket(borders=[0.0, 2.0]), NUMBERS),
    "hash of integers": (Hash(buckets=4), INTEGERS.fillna(5)),
    "hash of strings": (Hash(buckets=4), STRINGS),
    "two hashes of strings": (Hash(buckets=3, functions=2), STRINGS),
    "two hashes of large integers": (
        Hash(buckets=1000, functions=2),
        pd.Series(LARGE, dtype="Int64").fillna(5),
    ),
    "hash of large integers": (
        Hash(buckets=1000),
        pd.Series(LARGE, dtype="Int64").fillna(5),
    ),
    "hash of integers beyond 64 bits": (
        Hash(buckets=1000),
        pd.Series(BEYOND_64_BITS, dtype=object),
    ),
    "id of integers": (Id(), INTEGERS),
    "id of large integers": (Id(), pd.Series(LARGE, dtype="Int64")),
    "id of integers beyond 64 bits": (
        Id(),
        pd.Series(BEYOND_64_BITS, dtype=object),
    ),
    "id of texts like integers": (Id(), pd.Series(LIKE_INTEGERS)),
    "id of strings": (Id(), STRINGS),
    "id of texts with NUL": (Id(), pd.Series(WITH_NUL)),
    "ids, integers": (Ids(), pd.Series(LISTS_OF_INTEGERS)),
    "ids, large integers": (Ids(), pd.Series(LARGE_LISTS)),
    "ids, strings": (Ids(pooling="sum"), pd.Series(LISTS_OF_STRINGS)),
    "ids, the first": (
        Ids(pooling="max", length=2),
        pd.Series(LISTS_OF_INTEGERS),
    ),
    "ids, weighted": (Ids(weighted=True), pd.Series(WEIGHTED_LISTS)),
    "ids, the first, weighted": (
        Ids(weighted=True, pooling="sum", length=2),
        pd.Series(WEIGHTED_LISTS),
    ),
    "number": (Number(), NUMBERS),
    "number, log1p": (
        Number(transform="log1p", indicator=True),
        NUMBERS.abs(),
    ),
    "sequence": (Sequence(), pd.Series(LISTS_OF_STRINGS)),
    "sequence, the last": (Sequence(length=2), pd.Series(LISTS_OF_INTEGERS)),
    "vector": (Vector(size=2), pd.Series(VECTORS)),
}
