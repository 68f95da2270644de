"""The value of a policy, from a log that another policy has written.

An estimator is one file with a function from `LoggedChoices` to a value and
the influence of each request on it, and a line in `ESTIMATORS`.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from recsys.errors.shown import shown
from recsys.metrics.confidence_interval import Interval
from recsys.metrics.off_policy.doubly_robust import doubly_robust
from recsys.metrics.off_policy.ips import ips
from recsys.metrics.off_policy.logged_choices import (
    LoggedChoices as LoggedChoices,
)
from recsys.metrics.off_policy.logged_choices import Numbers
from recsys.metrics.off_policy.logged_choices import top_chances as top_chances
from recsys.metrics.off_policy.snips import snips

Estimator = Callable[[LoggedChoices], tuple[float, Numbers] | None]
ESTIMATORS: dict[str, Estimator] = {
    "ips": ips,
    "snips": snips,
    "doubly_robust": doubly_robust,
}


class Estimate(NamedTuple):
    """A value per request, with its confidence interval.

    The interval is `None` where there is one cluster alone.
    """

    value: float
    interval: Interval | None


def policy_values(
    choices: LoggedChoices, level: float = 0.95
) -> dict[str, Estimate]:
    """Estimates the mean reward of a request under a policy.

    Intervals are normal, with the standard error of the mean over requests
    that are independent only between clusters, and quantiles of Student's
    distribution with C - 1 degrees of freedom for C clusters.

    Args:
        choices: The log, and what the policy would have shown.
        level: How often such an interval should hold the true value.

    Returns:
        By estimator, of `ESTIMATORS`, what it can estimate; as "logged" the
        value of the policy that has written the log.

    Raises:
        ValueError: `level` is not between 0 and 1.

    Example:
    >>> choices = LoggedChoices.of(
    ...     requests=[1, 1, 2, 2],
    ...     rewards=[1, np.nan, np.nan, 0],
    ...     propensities=[0.5, 0.5, 0.5, 0.5],
    ...     chances=[1, 0, 1, 0],
    ... )
    >>> {name: found.value for name, found in policy_values(choices).items()}
    {'logged': 0.5, 'ips': 1.0, 'snips': 1.0}

    References:
        Liang, Zeger. Longitudinal Data Analysis Using Generalized Linear
        Models. Biometrika 73, 1986 (the variance between clusters).
    """
    if not 0 < level < 1:
        raise ValueError(
            "level: expected a number between 0 and 1. Received: "
            f"{shown(level)}"
        )
    logged = choices.by_request(choices.rewards)
    mean = float(logged.mean())
    estimates = {"logged": (mean, logged - mean)}
    for name, estimator in ESTIMATORS.items():
        estimate = estimator(choices)
        if estimate is not None:
            estimates[name] = estimate
    return {
        name: Estimate(value, _interval(value, influence, choices, level))
        for name, (value, influence) in estimates.items()
    }


def _interval(
    value: float, influence: Numbers, choices: LoggedChoices, level: float
) -> Interval | None:
    sums = np.bincount(choices.clusters, influence)
    count = len(np.unique(choices.clusters))
    if count < 2:
        return None
    variance = count / (count - 1) * (sums**2).sum() / len(influence) ** 2
    width = float(stdtrit(count - 1, (1 + level) / 2) * np.sqrt(variance))
    return Interval(value - width, value + width)
