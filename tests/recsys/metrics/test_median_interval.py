import numpy as np
import pytest

from recsys.metrics.median_interval import median_interval


@pytest.mark.parametrize("count", [20, 41])
def test_it_holds_the_median_as_often_as_it_says(count: int) -> None:
    generator = np.random.default_rng(0)
    draws = np.exp(generator.normal(size=(2000, count)))  # Median 1.
    ends = np.array([median_interval(draw, 0.9) for draw in draws])
    inside = ((ends[:, 0] <= 1) & (ends[:, 1] >= 1)).mean()
    assert 0.9 - 0.02 <= inside <= 0.97


def test_one_value() -> None:
    assert median_interval([3.0], 0.95) == (3.0, 3.0)
