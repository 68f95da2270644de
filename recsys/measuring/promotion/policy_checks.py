from collections.abc import Iterator

from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.rules import PromotionRules
from recsys.metrics.off_policy import ESTIMATORS
from recsys.metrics.off_policy import LoggedChoices
from recsys.metrics.paired_difference import Estimate


def policy_checks(
    old: LoggedChoices, new: LoggedChoices, rules: PromotionRules
) -> Iterator[Check]:
    """Checks that the new model would not earn less, by the log of a policy.

    Both are valued on the same requests, so what is hard to know of both
    cancels out of their difference. All estimators are shown; that of the
    rules decides.

    Args:
        old: What the old model would show, with the same rows and expected
            rewards as `new`.
        new: What the new one would show.
        rules: What is allowed.

    Yields:
        A check of the value, and one of how much the log knows of what the
        new model would show.
    """
    most = rules.most_value_drop
    for name in ESTIMATORS:
        before, after = _estimate(name, old), _estimate(name, new)
        if before is None or after is None:
            continue
        change = after.change_from(before)
        ends = change.interval(rules.confidence, new.clusters)
        decides = name == rules.policy_estimator
        yield Check(
            "value",
            f"value by {name}",
            ends[0] >= -most or not decides,
            change.value,
            most,
            ends,
            {
                "old": before.value,
                "new": after.value,
                "requests": new.num_requests,
                "decides": decides,
            },
        )
    least = rules.least_effective_rows
    known = new.effective_rows
    details = {"old": old.effective_rows, "new": known}
    yield Check(
        "value", "effective rows", known >= least, known, least, None, details
    )


def _estimate(name: str, choices: LoggedChoices) -> Estimate | None:
    """The mean reward of a request, with influences of requests `(R,)`."""
    estimate = ESTIMATORS[name](choices)
    if estimate is None:
        return None
    value, influences = estimate
    return Estimate(value, influences / choices.num_requests)
