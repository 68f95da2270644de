import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.columns.kind import declared
from recsys.data import DataError
from recsys.features import FEATURES
from recsys.features import Bucket


def test_a_border_is_in_the_bucket_above_it() -> None:
    fitted = Bucket(borders=[0.0, 2.0]).fit([])
    numbers = pd.Series([-1.0, 0.0, 1.0, 2.0, np.nan])
    assert fitted.encode(numbers).tolist() == [1, 2, 2, 3, 0]


def test_quantiles_have_as_many_rows_each() -> None:
    numbers = pd.Series(np.random.default_rng(0).normal(size=1000))
    buckets = Bucket(quantiles=8).fit([numbers]).encode(numbers)
    counts = np.bincount(buckets)[1:]
    assert len(counts) == 8
    assert counts.max() - counts.min() <= 2


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1), st.integers(2, 5))
def test_quantiles_of_any_numbers(numbers: list[float], count: int) -> None:
    column = pd.Series(numbers, dtype="float64")
    fitted = Bucket(quantiles=count).fit([column])
    buckets = fitted.encode(column)
    assert buckets.min() >= 1
    assert buckets.max() <= count
    order = np.argsort(numbers)
    assert (np.diff(buckets[order]) >= 0).all()


@given(
    st.lists(st.lists(st.integers(-9, 9) | st.floats(-1e6, 1e6)), min_size=1),
    st.integers(2, 9),
)
def test_quantiles_of_parts_are_those_of_all_numbers(
    parts: list[list[float]], count: int
) -> None:
    columns = [pd.Series([*part, None], dtype="float64") for part in parts]
    numbers = [number for part in parts for number in part]
    shares = np.linspace(0, 1, count + 1)[1:-1]
    expected = (
        np.quantile(np.array(numbers, np.float32), shares, method="higher")
        if numbers
        else []
    )
    borders = Bucket(quantiles=count).fit(iter(columns)).borders
    assert borders == np.unique(expected).tolist()


def test_borders_and_quantiles() -> None:
    both = {"type": "bucket", "borders": [1.0], "quantiles": 3}
    with pytest.raises(DataError, match="expected quantiles or borders"):
        declared(both, FEATURES, "'features'", "hour")
