"""A column for each kind of feature, for the tests that all of them share."""

import pandas as pd

from recsys.features import Bucket
from recsys.features import Feature
from recsys.features import Hash
from recsys.features import Id
from recsys.features import Ids
from recsys.features import Number
from recsys.features import Sequence
from recsys.features import Vector

INTEGERS = pd.Series([7, 9, 7, -3, None], dtype="Int64")
STRINGS = pd.Series(["b", "a", None, "é", "7"])
NUMBERS = pd.Series([1.0, None, -3.5, 1e6, 2.0])
VECTORS = [[1.0, 2.0], None, [0.0, -1.5], [3.0, 4.0], [5.0, 6.0]]
LISTS_OF_INTEGERS = [[7, 9, 7], [], None, [-3], [9, 9, 8, 7, 6]]
LISTS_OF_STRINGS = ["b|a", "", None, "é|7|b", "c"]
WEIGHTED_LISTS = ["b:0.5|a:2", "", None, "é:1e-3|7:0|b:.25|x:y:3", "c:1"]

CASES: dict[str, tuple[Feature, "pd.Series[object]"]] = {
    "bucket of quantiles": (Bucket(quantiles=3), NUMBERS),
    "bucket between borders": (Bucket(borders=[0.0, 2.0]), NUMBERS),
    "hash of integers": (Hash(buckets=4), INTEGERS.fillna(5)),
    "hash of strings": (Hash(buckets=4), STRINGS),
    "id of integers": (Id(), INTEGERS),
    "id of strings": (Id(), STRINGS),
    "ids, integers": (Ids(), pd.Series(LISTS_OF_INTEGERS)),
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
