from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from recsys.features import Hash
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
