"""Retrieval of two models, query by query."""

import numpy as np
import pytest

from recsys.measuring.promotion.retrieval_checks import QueryMetrics
from recsys.measuring.promotion.retrieval_checks import retrieval_checks
from recsys.measuring.promotion.rules import PromotionRules
from recsys.metrics.paired_difference import mean_estimate


def queries(
    hits: np.ndarray, users: np.ndarray | None = None, **weights: np.ndarray
) -> QueryMetrics:
    """Of queries that hit or not; each user has one query beside them."""
    counts = weights.get("weights", np.ones(len(hits)))
    return QueryMetrics(
        {"recall@10": hits}, counts, users, {"user_recall@10": hits}
    )


def test_an_interval_by_hand() -> None:
    """Of changes 1, 0, -1, 1 over a mean of a half, in two clusters of rows."""
    old = np.array([0.0, 1.0, 1.0, 0.0])
    new = np.array([1.0, 1.0, 0.0, 1.0])
    users = np.array([0, 0, 1, 1])
    by_row, by_user = retrieval_checks(
        queries(old, users), queries(new, users), PromotionRules()
    )
    assert (by_row.name, by_row.section) == ("recall@10", "retrieval")
    assert by_row.value == by_user.value == pytest.approx(0.5)
    # u = ((new - 3/4) - 1.5 (old - 1/2)) / 4 / 0.5; sums 1/4 and -1/4.
    half = 12.706205 * np.sqrt(2 * (0.25**2 + 0.25**2))
    assert by_row.interval == pytest.approx((0.5 - half, 0.5 + half))
    assert by_user.interval is not None
    assert by_user.interval[0] > by_row.interval[0]  # type: ignore[index]
    assert not by_row.passed
    assert not by_user.passed


def test_a_drop_is_refused_and_noise_within_the_limit_is_not() -> None:
    generator = np.random.default_rng(0)
    count = 40_000
    users = np.arange(count) // 4
    old = (generator.random(count) < 0.4).astype(float)
    swapped = generator.random(count) < 0.05
    same = np.where(swapped, generator.permutation(old), old)
    worse = np.where(generator.random(count) < 0.1, 0.0, old)
    for new, passed in ((old, True), (same, True), (worse, False)):
        checks = retrieval_checks(
            queries(old, users), queries(new, users), PromotionRules()
        )
        assert [check.passed for check in checks] == [passed, passed]


def test_weights_count_and_rows_without_one_do_not() -> None:
    old, new = np.array([1.0, 1.0, 0.0]), np.array([1.0, 0.0, 1.0])
    weights = np.array([3.0, 1.0, 0.0])
    by_row, _ = retrieval_checks(
        queries(old, weights=weights),
        queries(new, weights=weights),
        PromotionRules(),
    )
    assert by_row.value == pytest.approx(-0.25)
    nothing = queries(np.zeros(0))
    assert [*retrieval_checks(nothing, nothing, PromotionRules())] == []


def test_where_the_old_model_finds_nothing_the_change_is_absolute() -> None:
    nothing, some = np.zeros(50), np.r_[np.ones(10), np.zeros(40)]
    for check in retrieval_checks(
        queries(nothing), queries(some), PromotionRules()
    ):
        assert check.value == pytest.approx(0.2)
        assert check.passed
    found = mean_estimate(some, np.ones(50)).change_from(
        mean_estimate(nothing, np.ones(50))
    )
    assert found.value == pytest.approx(0.2)
