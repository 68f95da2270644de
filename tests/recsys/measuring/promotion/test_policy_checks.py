"""The value of what two models would show, by one planted log."""

import numpy as np
import pytest

from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.policy_checks import policy_checks
from recsys.measuring.promotion.rules import PromotionRules
from recsys.metrics.off_policy import LoggedChoices

TRUTH = np.array([0.1, 0.2, 0.3, 0.4])
LOGGING = np.array([0.4, 0.3, 0.2, 0.1])


def choices(shown_item: int, requests: int = 4000) -> LoggedChoices:
    """The same log for each policy, which always shows one of four items."""
    generator = np.random.default_rng(0)
    items = generator.choice(4, requests, p=LOGGING)
    rewards = np.full((requests, 4), np.nan)
    rewards[np.arange(requests), items] = (
        generator.random(requests) < TRUTH[items]
    )
    return LoggedChoices.of(
        np.repeat([f"r{n}" for n in range(requests)], 4),
        rewards.ravel(),
        np.tile(LOGGING, requests),
        np.tile(np.eye(4)[shown_item], requests),
        np.tile(TRUTH, requests),
        np.repeat(2**53 + np.arange(requests) // 2, 4),
    )


def by_name(old: int, new: int, **rules: object) -> dict[str, Check]:
    found = policy_checks(
        choices(old),
        choices(new),
        PromotionRules(**rules),  # type: ignore[arg-type]
    )
    return {check.name: check for check in found}


def test_values_and_intervals_hold_the_truth() -> None:
    for check in list(by_name(1, 2).values())[:-1]:
        assert check.interval is not None
        low, high = check.interval
        assert low < 0.5 < high
        assert check.details is not None
        assert check.details["new"] == pytest.approx(0.3, abs=0.03)


def test_only_the_estimator_of_the_rules_decides() -> None:
    names = ("ips", "snips", "doubly_robust")
    for decides in names:
        found = by_name(3, 0, policy_estimator=decides)
        refused = [name for name, check in found.items() if not check.passed]
        assert refused == [f"value by {decides}"]
    assert all(check.passed for check in by_name(0, 2).values())
    assert all(check.passed for check in by_name(2, 2).values())


def test_a_policy_that_the_log_does_not_know_is_refused() -> None:
    found = by_name(2, 3, least_effective_rows=1000.0)
    assert not found["effective rows"].passed
    assert found["effective rows"].value == choices(3).weights.sum() / 10
