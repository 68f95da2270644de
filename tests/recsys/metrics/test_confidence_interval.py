from typing import Any

import numpy as np
import pytest

from recsys.metrics import Interval
from recsys.metrics import ScoredRows
from recsys.metrics import auc
from recsys.metrics import confidence_interval
from recsys.metrics import confidence_intervals
from recsys.metrics import gauc
from recsys.metrics import hit_rate
from recsys.metrics import log_loss
from recsys.metrics import ndcg
from recsys.metrics import pr_auc
from recsys.metrics.confidence_interval import median_interval


def planted(num_groups: int, seed: int = 0, size: int = 6) -> ScoredRows:
    generator = np.random.default_rng(seed)
    groups = np.repeat(np.arange(num_groups), size)
    # What a whole group shares, so that its rows are not independent.
    shared = generator.normal(size=num_groups)[groups]
    logits = shared + generator.normal(size=len(groups))
    labels = generator.random(len(groups)) < 1 / (1 + np.exp(-logits))
    weights = generator.integers(0, 3, len(groups))
    return ScoredRows.of(labels, 1 / (1 + np.exp(-logits)), groups, weights)


@pytest.mark.parametrize("metric", [auc, pr_auc, log_loss])
def test_each_resample_is_the_metric_of_the_drawn_groups(metric: Any) -> None:
    """Against a bootstrap that copies the rows of what it draws."""
    rows = planted(12)
    generator = np.random.default_rng(7)
    values = []
    for _ in range(20):
        drawn = generator.integers(12, size=12)
        copied = np.concatenate(
            [np.flatnonzero(rows.groups == g) for g in drawn]
        )
        values.append(
            metric(
                ScoredRows.of(
                    rows.labels[copied],
                    rows.scores[copied],
                    weights=rows.weights[copied],
                )
            )
        )
    found = confidence_interval(metric, rows, level=0.8, resamples=20, seed=7)
    assert found == pytest.approx(tuple(np.quantile(values, (0.1, 0.9))))


@pytest.mark.parametrize("metric", [gauc, ndcg, hit_rate])
def test_means_over_groups_are_those_of_the_reweighted_rows(
    metric: Any,
) -> None:
    rows = planted(12)
    slow = confidence_interval(lambda r: metric(r).value, rows, resamples=50)
    fast = confidence_interval(metric, rows, resamples=50)
    assert fast == pytest.approx(slow)


def test_several_metrics_have_the_intervals_of_each_alone() -> None:
    rows = planted(12)
    metrics: dict[str, Any] = {"auc": auc, "gauc": gauc, "loss": log_loss}
    together = confidence_intervals(metrics, rows, resamples=30)
    assert together == {
        name: confidence_interval(metric, rows, resamples=30)
        for name, metric in metrics.items()
    }


def test_same_seed_same_interval() -> None:
    rows = planted(12)
    first = confidence_interval(auc, rows, resamples=20, seed=3)
    assert first == confidence_interval(auc, rows, resamples=20, seed=3)
    assert first != confidence_interval(auc, rows, resamples=20, seed=4)


def test_a_higher_level_is_wider() -> None:
    rows = planted(40)
    narrow = confidence_interval(gauc, rows, level=0.5)
    wide = confidence_interval(gauc, rows, level=0.99)
    assert narrow is not None
    assert wide is not None
    assert wide.low < narrow.low < narrow.high < wide.high


def test_drawing_groups_is_wider_than_drawing_rows() -> None:
    """Copies of a row add nothing to what a group tells."""
    generator = np.random.default_rng(0)
    labels = np.repeat(generator.integers(0, 2, 60), 20)
    scores = np.repeat(generator.random(60), 20)
    groups = np.repeat(np.arange(60), 20)
    widths = [
        found.high - found.low
        for some in (groups, None)
        for found in [
            confidence_interval(
                auc, ScoredRows.of(labels, scores, some), resamples=200
            )
        ]
        if found is not None
    ]
    assert widths[0] > 3 * widths[1]


def test_covers_as_often_as_it_says() -> None:
    """Of 200 samples, 90 % of the intervals hold the true share of hits."""
    covered = 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        hits = generator.random(80) < 0.3
        # Two rows a group, of which the positive one is first or last.
        scores = np.stack([hits, ~hits], axis=1).astype(float).ravel()
        rows = ScoredRows.of([1, 0] * 80, scores, np.repeat(np.arange(80), 2))
        found = confidence_interval(
            lambda rows: hit_rate(rows, k=1), rows, level=0.9, resamples=300
        )
        assert found is not None
        covered += found.low <= 0.3 <= found.high
    # Three standard errors of 200 draws, and what 80 groups leave out.
    assert 160 < covered < 196


def test_resamples_of_one_class_do_not_count() -> None:
    rows = ScoredRows.of([1, 0], [0.9, 0.1])
    assert confidence_interval(auc, rows, resamples=50) == Interval(1.0, 1.0)


@pytest.mark.parametrize(
    "rows",
    [
        ScoredRows.of([], [], []),
        ScoredRows.of([1, 1], [0.1, 0.2], ["a", "b"]),
    ],
)
@pytest.mark.parametrize("metric", [auc, gauc])
def test_no_interval_of_what_cannot_be_computed(
    metric: Any, rows: ScoredRows
) -> None:
    assert confidence_interval(metric, rows, resamples=5) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0}, r"level: .*between 0 and 1. Received: 0"),
        ({"level": 95}, r"level: .*between 0 and 1. Received: 95"),
        ({"resamples": 0}, r"resamples: .*Received: 0"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        confidence_interval(auc, planted(3), **options)


@pytest.mark.parametrize("count", [20, 41])
def test_it_holds_the_median_as_often_as_it_says(count: int) -> None:
    generator = np.random.default_rng(0)
    draws = np.exp(generator.normal(size=(2000, count)))  # Median 1.
    ends = np.array([median_interval(draw, 0.9) for draw in draws])
    inside = ((ends[:, 0] <= 1) & (ends[:, 1] >= 1)).mean()
    assert 0.9 - 0.02 <= inside <= 0.97


def test_the_median_of_one_value() -> None:
    assert median_interval([3.0], 0.95) == (3.0, 3.0)
