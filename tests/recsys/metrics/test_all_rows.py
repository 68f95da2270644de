"""Metrics of all rows together, against their definitions."""

from collections.abc import Callable
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from sklearn.metrics import roc_auc_score

from recsys.metrics import ScoredRows
from recsys.metrics import auc
from recsys.metrics import calibration_bins
from recsys.metrics import ece
from recsys.metrics import log_loss
from recsys.metrics import normalized_entropy
from recsys.metrics import pr_auc
from tests.recsys.metrics import brute_force
from tests.recsys.metrics.brute_force import REPEATED
from tests.recsys.metrics.brute_force import UNWEIGHTED
from tests.recsys.metrics.brute_force import WEIGHTED
from tests.recsys.metrics.brute_force import Row
from tests.recsys.metrics.brute_force import close
from tests.recsys.metrics.brute_force import scored

Metric = Callable[[ScoredRows], float | None]

METRICS = {
    "auc": (auc, brute_force.auc),
    "pr_auc": (pr_auc, brute_force.pr_auc),
    "log_loss": (log_loss, brute_force.log_loss),
    "normalized_entropy": (normalized_entropy, brute_force.normalized_entropy),
    "ece of 1": (partial(ece, bins=1), partial(brute_force.ece, bins=1)),
    "ece of 4": (partial(ece, bins=4), partial(brute_force.ece, bins=4)),
    "ece of 15": (ece, partial(brute_force.ece, bins=15)),
}
each_metric = pytest.mark.parametrize(
    ("metric", "definition"), METRICS.values(), ids=METRICS.keys()
)
RANK_METRICS: list[Metric] = [auc, pr_auc]


def test_area_by_hand() -> None:
    """Of 2 * 3 pairs, 4 are won and one is tied."""
    rows = ScoredRows.of([1, 0, 1, 0, 0], [0.9, 0.5, 0.5, 0.6, 0.1])
    assert auc(rows) == 4.5 / 6


def test_average_precision_by_hand() -> None:
    """Precision 1 at recall 1/2, and 2/4 at recall 1."""
    rows = ScoredRows.of([1, 0, 1, 0], [0.9, 0.5, 0.5, 0.6])
    assert pr_auc(rows) == 0.5 * 1 + 0.5 * 2 / 4


@each_metric
@given(rows=UNWEIGHTED)
def test_as_defined(
    metric: Metric, definition: Callable[..., float | None], rows: list[Row]
) -> None:
    expected = definition(rows)
    for weights in (False, True):
        found = metric(scored(rows, weights=weights))
        assert found == close(expected)


@each_metric
@given(rows=WEIGHTED)
def test_weighted_as_defined(
    metric: Metric, definition: Callable[..., float | None], rows: list[Row]
) -> None:
    found = metric(scored(rows))
    assert found == close(definition(rows))


@each_metric
@given(rows=REPEATED)
def test_weight_is_repetition(
    metric: Metric, definition: object, rows: list[Row]
) -> None:
    repeated = [row for row in rows for _ in range(int(row.weight))]
    found = metric(scored(rows))
    expected = metric(scored(repeated, weights=False))
    assert found == close(expected)


@each_metric
@given(rows=UNWEIGHTED, data=st.data())
def test_order_of_rows_does_not_matter(
    metric: Metric, definition: object, rows: list[Row], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(rows))
    expected = metric(scored(rows, weights=False))
    found = metric(scored(shuffled, weights=False))
    assert found == close(expected)


@pytest.mark.parametrize("metric", RANK_METRICS)
@given(rows=WEIGHTED, data=st.data())
def test_ranks_alone_count(
    metric: Metric, rows: list[Row], data: st.DataObject
) -> None:
    """Not the scores, nor the order of the rows, to the last bit."""
    moved = [row._replace(score=np.exp(5 * row.score) - 40) for row in rows]
    assert metric(scored(moved)) == metric(scored(rows))
    shuffled = data.draw(st.permutations(rows))
    unweighted = metric(scored(rows, weights=False))
    assert metric(scored(shuffled, weights=False)) == unweighted


@given(rows=WEIGHTED)
def test_as_in_scikit_learn(rows: list[Row]) -> None:
    def values(name: str) -> list[float]:
        return [getattr(row, name) for row in rows]

    labels, scores, weights = map(values, ("label", "score", "weight"))
    found = scored(rows)
    if auc(found) is not None:
        for metric, theirs in (
            (auc, roc_auc_score),
            (pr_auc, average_precision_score),
        ):
            expected = theirs(labels, scores, sample_weight=weights)
            assert metric(found) == close(expected)


@pytest.mark.parametrize("metric", RANK_METRICS)
def test_a_constant_score_is_as_good_as_chance(metric: Metric) -> None:
    rows = ScoredRows.of([1, 0, 0, 0], [0.3, 0.3, 0.3, 0.3])
    assert metric(rows) == {auc: 0.5, pr_auc: 0.25}[metric]


@pytest.mark.parametrize(
    ("labels", "undefined"),
    [
        ([], {auc, pr_auc, log_loss, normalized_entropy, ece}),
        ([1, 1], {auc, normalized_entropy}),
        ([0, 0], {auc, pr_auc, normalized_entropy}),
    ],
)
def test_what_cannot_be_computed_is_none(
    labels: Sequence[int], undefined: set[Metric]
) -> None:
    rows = ScoredRows.of(labels, [0.5] * len(labels))
    every: set[Metric] = {auc, pr_auc, log_loss, normalized_entropy, ece}
    assert {metric for metric in every if metric(rows) is None} == undefined


def test_certain_and_wrong_is_a_large_loss_and_not_infinite() -> None:
    rows = ScoredRows.of([1], [0.0])
    assert log_loss(rows) == pytest.approx(-np.log(1e-7))


def test_bins_are_closed_above() -> None:
    """0 and 1/4 in the first bin, as the paper has it."""
    found = calibration_bins(
        ScoredRows.of([0, 1, 0, 1], [0, 0.25, 0.5, 1], weights=[1, 3, 1, 1]),
        bins=4,
    )
    assert found.weights.tolist() == [4, 1, 0, 1]
    np.testing.assert_array_equal(found.observed, [0.75, 0, np.nan, 1])
    np.testing.assert_array_equal(found.predicted, [0.1875, 0.5, np.nan, 1])


@pytest.mark.parametrize("metric", [log_loss, normalized_entropy, ece])
@pytest.mark.parametrize("score", [-0.1, 1.5])
def test_probabilities_are_from_0_to_1(metric: Metric, score: float) -> None:
    rows = ScoredRows.of([1, 0], [0.5, score])
    with pytest.raises(ValueError, match=rf"row 2 .*Received: {score}"):
        metric(rows)


@pytest.mark.parametrize("bins", [0, -3, 2.0, True])
def test_there_is_a_bin(bins: int) -> None:
    with pytest.raises(ValueError, match=rf"bins: .*Received: {bins}"):
        ece(ScoredRows.of([1], [0.5]), bins)
