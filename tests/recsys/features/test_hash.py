from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from siphash24 import siphash24

from recsys.columns.kind import declared
from recsys.data import DataError
from recsys.features import FEATURES
from recsys.features import Hash
from recsys.features.one_id import OneRow
from tests.recsys.features.id_columns import columns
from tests.recsys.features.id_columns import texts_of


def test_ids_have_the_buckets_of_siphash() -> None:
    """Those that `tf.strings.to_hash_bucket_strong` has, plus 1."""
    fitted = Hash(buckets=1000).fit([pd.Series(["a"])])
    ids = pd.Series(["a", "é", "7", None])
    assert fitted.encode(ids).tolist() == [906, 833, 706, 0]


def test_an_integer_has_the_bucket_of_its_text() -> None:
    fitted = Hash(buckets=1000).fit([pd.Series([7])])
    assert fitted.encode(pd.Series([7])) == fitted.encode(pd.Series(["7"]))


def test_buckets_are_about_as_full() -> None:
    fitted = Hash(buckets=10).fit([pd.Series([7])])
    counts = np.bincount(fitted.encode(pd.Series(range(10_000))))
    assert counts[0] == 0
    assert (np.abs(counts[1:] - 1000) < 150).all()


@pytest.mark.parametrize("id", [7.0, Decimal(7), Decimal("7.00"), np.uint64(7)])
def test_one_id_has_one_bucket_whatever_holds_it(id: Any) -> None:
    fitted = Hash(buckets=1000).fit([pd.Series(["a"])])
    for column in (pd.Series([id]), pd.Series([id, "x"], dtype=object)):
        assert fitted.encode(column)[0] == 706
    assert fitted.encode(pd.Series(["7.0"]))[0] != 706


@given(columns)
def test_buckets_are_those_of_the_texts(column: "pd.Series[Any]") -> None:
    fitted = Hash(buckets=1 << 20).fit([pd.Series(["a"])])
    texts = pd.Series(texts_of(column), dtype=object)
    assert fitted.encode(column).tolist() == fitted.encode(texts).tolist()


def test_a_further_split_with_strings_makes_it_take_strings() -> None:
    fitted = Hash(buckets=1000).fit([pd.Series([7, 2**53 + 1])])
    assert fitted.grown([pd.Series([8])]).raw_dtype == "int64"
    for part in (pd.Series(["x"]), pd.Series([2**64 - 1])):
        grown = fitted.grown([pd.Series([8]), part])
        assert grown.raw_dtype == "string"
        assert grown.grown([pd.Series([8])]).raw_dtype == "string"
        ids = pd.Series([7, 2**53 + 1])
        assert grown.encode(ids).tolist() == fitted.encode(ids).tolist()


PAIR = Hash(buckets=1000, functions=2)


def number_of(id: object, count: int) -> int:
    digest = siphash24(str(id).encode(), key=bytes(16)).digest()
    return int.from_bytes(digest, "little") % count


@pytest.mark.parametrize(
    "ids", [["a", "é", "7"], [7, 2**53, 2**53 + 1, 2**63 - 1]]
)
def test_two_functions_are_the_remainder_and_the_quotient(
    ids: list[Any],
) -> None:
    fitted = PAIR.fit([pd.Series(ids)])
    pairs = fitted.encode(pd.Series(ids))
    for id, (remainder, quotient) in zip(ids, pairs.tolist(), strict=True):
        number = number_of(id, 1000**2)
        assert (quotient - 1001, remainder - 1) == divmod(number, 1000)
    one = Hash(buckets=1000).fit([pd.Series(ids)])
    np.testing.assert_array_equal(pairs[:, 0], one.encode(pd.Series(ids)))


def test_a_missing_id_has_no_bucket_of_either_function() -> None:
    fitted = PAIR.fit([pd.Series(["a"])])
    nothing = pd.Series([None, "a"], dtype=object)
    assert fitted.encode(nothing)[0].tolist() == [0, 0]
    assert fitted.encode(nothing[:0]).shape == (0, 2)


def test_two_functions_tell_more_ids_apart() -> None:
    """As many as there are numbers: 10,000 instead of 100 buckets."""
    ids = pd.Series(range(10_000))
    pairs = Hash(buckets=100, functions=2).fit([ids]).encode(ids)
    assert pairs.min(axis=0).tolist() == [1, 101]
    assert pairs.max(axis=0).tolist() == [100, 200]
    numbers = {number_of(id, 10_000) for id in ids}
    assert len(np.unique(pairs, axis=0)) == len(numbers)
    assert len(numbers) > 6000


def test_neither_gates_nor_calibrations_go_by_two_buckets() -> None:
    one = Hash(buckets=9)
    assert one.routable
    assert not PAIR.routable
    ids = [pd.Series(["a"])]
    assert isinstance(one.fit(ids), OneRow)
    assert not isinstance(PAIR.fit(ids), OneRow)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"functions": 3}, "functions"),
        ({"functions": 2, "buckets": 2**30}, "expected at most 1073741823"),
    ],
)
def test_other_functions_are_refused(
    options: dict[str, int], message: str
) -> None:
    declaration = {"type": "hash", "buckets": 9, **options}
    with pytest.raises(DataError, match=message):
        declared(declaration, FEATURES, "'features'", "device")
