import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.data import DataError
from recsys.features import Number

numbers = st.lists(st.floats(-1e6, 1e6), max_size=8)


@given(st.lists(numbers, min_size=1, max_size=5))
def test_moments_of_parts_are_those_of_the_whole(
    parts: list[list[float]],
) -> None:
    whole = np.concatenate([np.zeros(0), *parts])
    fitted = Number().fit([pd.Series(part, dtype="float64") for part in parts])
    mean, variance = (whole.mean(), whole.var()) if len(whole) else (0, 1)
    np.testing.assert_allclose(fitted.mean, mean, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(fitted.variance, variance, rtol=1e-9, atol=1e-3)


def test_a_constant_is_0_and_another_number_finite() -> None:
    fitted = Number().fit([pd.Series([5.0, 5.0])])
    seen = np.asarray(fitted.vectors(np.float32([5.0, 6.0, np.nan])))
    assert seen[0] == seen[2] == 0
    assert np.isfinite(seen).all()


def test_a_logarithm_and_an_indicator() -> None:
    kind = Number(transform="log1p", indicator=True)
    column = pd.Series([0.0, np.e - 1, np.nan])
    fitted = kind.fit([column])
    seen = np.asarray(fitted.vectors(fitted.encode(column)))
    np.testing.assert_allclose(seen, [[-1, 0], [1, 0], [0, 1]], atol=1e-6)


def test_a_logarithm_of_a_negative_number() -> None:
    column = pd.Series([1.0, -0.5], name="price")
    with pytest.raises(DataError) as caught:
        Number(transform="log1p").check(column, "shop.csv")
    assert str(caught.value) == (
        "shop.csv, column 'price', data row 2 (counted from 1): expected a "
        "number of at least 0. Received: -0.5"
    )
