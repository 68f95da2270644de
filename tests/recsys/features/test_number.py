import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

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
    seen = np.asarray(fitted.vectors(np.float32([5.0, 6.0, np.nan]), None))
    assert seen[0] == seen[2] == 0
    assert np.isfinite(seen).all()
