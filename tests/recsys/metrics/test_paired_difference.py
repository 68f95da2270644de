import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.metrics import ScoredRows
from recsys.metrics import auc
from recsys.metrics.paired_difference import Estimate
from recsys.metrics.paired_difference import auc_estimate
from recsys.metrics.paired_difference import mean_estimate


def test_interval_of_a_mean_by_hand() -> None:
    """t of 3 degrees is 3.182; the standard error of 1, 2, 3, 6 is 1.0801."""
    estimate = mean_estimate(np.array([1.0, 2.0, 3.0, 6.0]), np.ones(4))
    low, high = estimate.interval(0.95)
    assert estimate.value == 3.0
    assert [low, high] == pytest.approx([3 - 3.4375, 3 + 3.4375], abs=1e-3)


def test_rows_of_a_group_count_as_one() -> None:
    """Each row twice, in its group: the interval stays."""
    values, twice = np.array([1.0, 2.0, 3.0, 6.0]), np.arange(8) // 2
    single = mean_estimate(values, np.ones(4)).interval(0.9)
    double = mean_estimate(values[twice], np.ones(8)).interval(0.9, twice)
    assert double == pytest.approx(single)


def test_one_group_says_nothing() -> None:
    estimate = mean_estimate(np.array([1.0, 2.0]), np.ones(2))
    ends = estimate.interval(0.95, np.zeros(2, int))
    assert ends == (-np.inf, np.inf)


def test_groups_without_a_row_do_not_count() -> None:
    values = np.array([1.0, 2.0, 4.0])
    estimate = mean_estimate(values, np.ones(3))
    assert estimate.interval(0.95, np.array([0, 7, 9])) == pytest.approx(
        estimate.interval(0.95)
    )


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_auc_is_that_of_the_metrics_and_its_influences_the_jackknife(
    seed: int,
) -> None:
    """Ties and weights; without a row, the AUC changes by its influence."""
    generator = np.random.default_rng(seed)
    labels = generator.random(60) < 0.5
    labels[:2] = [True, False]
    scores = generator.integers(0, 9, 60) / 8
    weights = generator.random(60) + 0.5
    estimate = auc_estimate(labels, scores, weights)
    assert estimate is not None
    rows = ScoredRows.of(labels, scores, weights=weights)
    assert estimate.value == pytest.approx(auc(rows))
    assert estimate.influences.sum() == pytest.approx(0, abs=1e-12)
    lighter = weights.copy()
    lighter[7] -= 1e-6
    changed = auc_estimate(labels, scores, lighter)
    assert changed is not None
    slope = (estimate.value - changed.value) / 1e-6 * weights[7]
    assert slope == pytest.approx(estimate.influences[7], abs=1e-5)


def test_auc_of_one_class_is_none() -> None:
    assert auc_estimate(np.ones(3, bool), np.ones(3), np.ones(3)) is None


def test_relative_difference_by_its_slope() -> None:
    old = Estimate(2.0, np.array([0.1, -0.1]))
    new = Estimate(3.0, np.array([0.3, -0.3]))
    change = new.relative_to(old)
    assert change.value == pytest.approx(0.5)
    step = 1e-6
    moved = (3.0 + step * 0.3) / (2.0 + step * 0.1) - 1
    assert (moved - 0.5) / step == pytest.approx(change.influences[0], abs=1e-5)


def test_intervals_of_grouped_rows_cover_the_truth() -> None:
    """95 % of 400 intervals, ± 3 standard errors of that share."""
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(50), 6)
    covered = 0
    for _ in range(400):
        values = generator.normal(size=50)[groups] + generator.normal(size=300)
        low, high = mean_estimate(values, np.ones(300)).interval(0.95, groups)
        covered += low <= 0 <= high
    assert 0.917 <= covered / 400 <= 0.983
