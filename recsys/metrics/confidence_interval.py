from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import numpy as np

from recsys.metrics.group_mean import GroupMean
from recsys.metrics.scored_rows import ScoredRows
from recsys.metrics.scored_rows import check_positive
from recsys.shown import shown

# Numbers of resampled groups that are held at a time; 8 bytes each.
_COUNTS_AT_A_TIME = 10_000_000

Metric = Callable[[ScoredRows], GroupMean | float | None]


class Interval(NamedTuple):
    """Where a metric lies, with some confidence."""

    low: float
    high: float


def confidence_interval(
    metric: Metric,
    rows: ScoredRows,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval | None:
    """Returns the percentile interval of a metric, by the bootstrap.

    Groups are drawn with replacement, as many as there are, each with all of
    its rows: the rows of a user are not independent of each other, and an
    interval from drawing rows would be too narrow. Rows without groups are
    drawn one by one. What was drawn r times weighs r times as much.

    A metric that is a mean over groups is computed once and averaged anew, a
    matrix product for all resamples; any other is computed for each resample,
    on rows that are sorted once.

    Args:
        metric: Takes rows, such as `auc`, `gauc` or
            `lambda rows: ndcg(rows, k=5)`.
        rows: The rows, with groups or without.
        level: How often such an interval should hold the true value.
        resamples: How many resamples are drawn.
        seed: Of the draws; the same seed gives the same interval.

    Returns:
        The interval, `None` where the metric is `None`. Resamples for which
        it is `None`, such as those of one class, do not count.

    Raises:
        ValueError: `level` is not between 0 and 1, or `resamples` less than 1.

    Example:
    >>> from recsys.metrics import ScoredRows, auc, confidence_interval
    >>> rows = ScoredRows.of([1, 1, 0, 0], [0.9, 0.4, 0.5, 0.1])
    >>> confidence_interval(auc, rows)
    Interval(low=0.0, high=1.0)

    References:
        Efron and Tibshirani, An Introduction to the Bootstrap, 1993, section
        13.3.
    """
    if not 0 < level < 1:
        raise ValueError(
            f"level: expected a number between 0 and 1. Received: "
            f"{shown(level)}"
        )
    check_positive("resamples", resamples)
    whole = metric(rows)
    if isinstance(whole, GroupMean):
        values = _resampled_means(whole, resamples, seed)
    else:
        values = _resampled(metric, rows, resamples, seed)
    values = values[~np.isnan(values)]
    if not len(values):
        return None
    outside = (1 - level) / 2
    low, high = np.quantile(values, (outside, 1 - outside))
    return Interval(float(low), float(high))


def _resampled(
    metric: Metric, rows: ScoredRows, resamples: int, seed: int
) -> Any:
    """The metric of each resample, NaN where it is `None`."""
    groups = rows.groups
    num_units = len(rows) if groups is None else rows.num_groups
    values = np.full(resamples, np.nan)
    for index, counts in enumerate(_draws(num_units, resamples, seed)):
        factors = counts if groups is None else counts[groups]
        value = metric(rows.reweighted(factors))
        assert not isinstance(value, GroupMean)
        if value is not None:
            values[index] = value
    return values


def _resampled_means(whole: GroupMean, resamples: int, seed: int) -> Any:
    """The mean over the groups of each resample, NaN where there is none."""
    num_groups = len(whole.values)
    sums = np.stack([whole.values * whole.weights, whole.weights], axis=1)
    at_a_time = max(1, _COUNTS_AT_A_TIME // max(1, num_groups))
    draws = _draws(num_groups, resamples, seed)
    means = np.full(resamples, np.nan)
    for start in range(0, resamples, at_a_time):
        part = means[start : start + at_a_time]
        counts = np.stack([next(draws) for _ in part])
        total, weight = (counts @ sums).T
        np.divide(total, weight, part, where=weight > 0)
    return means


def _draws(num_units: int, resamples: int, seed: int) -> Iterator[Any]:
    """How often each unit is drawn, float64 `(num_units,)` for a resample."""
    generator = np.random.default_rng(seed)
    for _ in range(resamples):
        drawn = generator.integers(num_units, size=num_units, dtype=np.int64)
        yield np.bincount(drawn, minlength=num_units).astype(np.float64)
