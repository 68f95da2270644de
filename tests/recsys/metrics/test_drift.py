import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.metrics.drift import category_drift
from recsys.metrics.drift import holm
from recsys.metrics.drift import number_drift
from recsys.metrics.drift import psi

NAN = float("nan")


def test_index_by_hand() -> None:
    """p = 1/4, 3/4 and q = 3/4, 1/4, with the half that is added."""
    before, after = np.array([4.5, 14.5]), np.array([14.5, 4.5])
    assert psi(before, after) == pytest.approx(0.5 * np.log(3) * 2)


def test_same_numbers_do_not_drift() -> None:
    numbers = np.arange(1000.0)
    drift = number_drift(numbers, numbers[::-1])
    assert drift.psi == pytest.approx(0)
    assert drift.p_value == 1.0


def test_moved_numbers_drift() -> None:
    generator = np.random.default_rng(0)
    numbers = generator.normal(size=2000)
    drift = number_drift(numbers, generator.normal(1.0, size=2000))
    assert drift.psi > 0.5
    assert drift.p_value < 1e-9


@pytest.mark.parametrize("constant", [True, False])
def test_missing_numbers_drift(constant: bool) -> None:
    numbers = np.ones(500) if constant else np.arange(500.0)
    fewer = numbers.copy()
    fewer[::2] = NAN
    drift = number_drift(numbers, fewer)
    assert drift.psi > 0.25
    assert drift.p_value < 1e-9


def test_numbers_that_are_all_missing() -> None:
    nothing = np.full(30, NAN)
    assert number_drift(nothing, nothing).p_value == 1.0
    assert number_drift(np.arange(30.0), nothing).p_value < 1e-6
    assert number_drift(np.array([]), np.array([])).p_value == 1.0


@pytest.mark.parametrize("as_text", [True, False])
def test_ids_beyond_2_to_the_53_are_told_apart(as_text: bool) -> None:
    """As floats, both samples would be one id."""
    first, second = 2**60, 2**60 + 1
    values = pd.Series([first] * 90 + [second] * 10)
    other = pd.Series([second] * 90 + [first] * 10)
    if as_text:
        values, other = values.map(str), other.map(str)
    assert category_drift(values, values).psi == 0
    drift = category_drift(values, other)
    assert drift.psi > 1
    assert drift.p_value < 1e-9


def test_rare_categories_are_one() -> None:
    """A thousand ids, each seen once, are no evidence of a drift."""
    before = pd.Series([f"a{index}" for index in range(1000)])
    after = pd.Series([f"b{index}" for index in range(1000)])
    assert category_drift(before, after).p_value == 1.0


def test_p_values_are_uniform_without_drift() -> None:
    generator = np.random.default_rng(1)
    numbers, ids = [], []
    for _ in range(200):
        first, second = generator.normal(size=(2, 400))
        numbers.append(number_drift(first, second).p_value)
        first, second = generator.integers(0, 8, (2, 400))
        drift = category_drift(pd.Series(first), pd.Series(second))
        ids.append(drift.p_value)
    for p_values in (numbers, ids):
        assert np.mean(np.array(p_values) < 0.1) < 0.17  # 3 standard errors.


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_against_its_definition(p_values: list[float]) -> None:
    order = sorted(p_values)
    expected = {
        p: max(
            min(1.0, (len(order) - rank) * order[rank])
            for rank in range(len(order) - order[::-1].index(p))
        )
        for p in order
    }
    got = dict(zip(p_values, holm(p_values), strict=True))
    for p in set(p_values):
        assert got[p] == pytest.approx(expected[p]) or p_values.count(p) > 1
