import numpy as np
import pandas as pd

from recsys.features import Hash


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
