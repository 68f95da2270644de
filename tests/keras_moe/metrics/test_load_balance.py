import numpy as np
import pytest

from keras_moe.metrics import balanced_experts
from keras_moe.metrics import load_balance


@pytest.mark.parametrize(
    ("loads", "balance", "balanced"),
    [
        ([0.5, 0.5, 0.5, 0.5], 1.0, 1.0),
        ([2, 0, 0, 0], 1 / 4, 0.0),
        ([0, 3, 3, 0], 2 / 4, 0.0),
        # Above the mean of 10 are 4; they are a tenth of all.
        ([10, 14, 10, 6], 0.9, 0.5),
        # 10 % off either way still count.
        ([11, 9, 9, 11], 0.95, 1.0),
        ([0.111, 0.09, 0.099], 1 - 0.011 / 0.3, 2 / 3),
        ([0, 0, 0], 0.0, 0.0),
    ],
)
def test_by_hand(loads: list[float], balance: float, balanced: float) -> None:
    assert load_balance(loads) == pytest.approx(balance)
    assert balanced_experts(loads) == pytest.approx(balanced)


def test_is_one_minus_the_total_variation_distance() -> None:
    loads = np.random.default_rng(0).gamma(0.5, size=(20, 3, 7))
    parts = loads / loads.sum(axis=-1, keepdims=True)
    distance = np.abs(parts - 1 / 7).sum(axis=-1) / 2
    assert load_balance(loads).shape == (20, 3)
    np.testing.assert_allclose(load_balance(loads), 1 - distance, atol=1e-12)


def test_counts_and_shares_are_the_same() -> None:
    loads = np.random.default_rng(0).integers(1, 90, (5, 6))
    np.testing.assert_allclose(load_balance(loads), load_balance(loads / 100))
