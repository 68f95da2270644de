"""Metrics within groups, against their definitions."""

from collections.abc import Callable
from functools import partial
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.metrics import GroupMean
from recsys.metrics import ScoredRows
from recsys.metrics import gauc
from recsys.metrics import hit_rate
from recsys.metrics import mrr
from recsys.metrics import ndcg
from recsys.metrics import recall
from tests.recsys.metrics import brute_force
from tests.recsys.metrics.brute_force import FEW
from tests.recsys.metrics.brute_force import REPEATED
from tests.recsys.metrics.brute_force import UNWEIGHTED
from tests.recsys.metrics.brute_force import WEIGHTED
from tests.recsys.metrics.brute_force import Row
from tests.recsys.metrics.brute_force import close
from tests.recsys.metrics.brute_force import scored

Metric = Callable[..., GroupMean]

OF_POSITIONS: dict[Metric, Callable[[int], brute_force.Ranked]] = {
    ndcg: brute_force.ndcg,
    recall: brute_force.recall,
    mrr: brute_force.mrr,
    hit_rate: brute_force.hit_rate,
}
each_metric = pytest.mark.parametrize("metric", [gauc, *OF_POSITIONS])
each_of_positions = pytest.mark.parametrize("metric", OF_POSITIONS)


def test_area_by_hand() -> None:
    """Of "a" 1 of 2 pairs, of "b" 1 of 1; "c" has no negative row."""
    rows = ScoredRows.of(
        [1, 0, 0, 1, 0, 1],
        [0.5, 0.9, 0.1, 0.3, 0.2, 0.7],
        ["a", "a", "a", "b", "b", "c"],
    )
    found = gauc(rows)
    assert found.value == (3 * 0.5 + 2 * 1) / 5
    assert (found.num_groups, found.coverage) == (2, 5 / 6)


def test_positions_by_hand() -> None:
    """In "a" the positive rows are 2nd and 4th, "b" has none."""
    rows = ScoredRows.of(
        [0, 1, 0, 1, 0], [0.9, 0.8, 0.7, 0.6, 0.5], ["a"] * 4 + ["b"]
    )
    ideal = 1 + 1 / np.log2(3)
    assert ndcg(rows, k=3).value == pytest.approx(1 / np.log2(3) / ideal)
    assert recall(rows, k=3).value == 0.5
    assert mrr(rows).value == 0.5
    assert mrr(rows, k=1).value == 0
    assert hit_rate(rows, k=2).value == 1
    assert (mrr(rows).num_groups, mrr(rows).coverage) == (1, 0.8)


@given(rows=UNWEIGHTED)
def test_area_as_defined(rows: list[Row]) -> None:
    found = gauc(scored(rows, weights=False))
    assert found.value == close(brute_force.gauc(rows))


@given(rows=WEIGHTED)
def test_weighted_area_as_defined(rows: list[Row]) -> None:
    found = gauc(scored(rows))
    assert found.value == close(brute_force.gauc(rows))


@given(rows=REPEATED)
def test_weight_is_repetition(rows: list[Row]) -> None:
    repeated = [row for row in rows for _ in range(int(row.weight))]
    found, expected = gauc(scored(rows)), gauc(scored(repeated, weights=False))
    assert found.value == close(expected.value)
    assert found.num_groups == expected.num_groups
    assert found.coverage == close(expected.coverage)


@each_of_positions
@given(rows=FEW, k=st.integers(1, 7))
def test_expected_over_all_orders_of_ties(
    metric: Metric, rows: list[Row], k: int
) -> None:
    expected = brute_force.ranked_mean(rows, OF_POSITIONS[metric](k))
    for weights in (False, True):
        found = metric(scored(rows, weights=weights), k=k)
        assert found.value == close(expected)


@pytest.mark.parametrize("metric", [ndcg, recall, mrr])
@given(rows=UNWEIGHTED)
def test_all_positions_count_without_k(metric: Metric, rows: list[Row]) -> None:
    few = scored(rows, weights=False)
    assert metric(few, k=None).value == metric(few, k=100).value


@each_of_positions
@given(rows=UNWEIGHTED, data=st.data())
def test_a_group_counts_by_the_mean_weight_of_its_rows(
    metric: Metric, rows: list[Row], data: st.DataObject
) -> None:
    """A weight for all rows of a group is how often the group is there."""
    times = {name: data.draw(st.integers(0, 3)) for name in "abc"}
    weighted = [row._replace(weight=times[row.group]) for row in rows]
    repeated = [
        row._replace(group=f"{row.group}{copy}")
        for row in rows
        for copy in range(times[row.group])
    ]
    found = metric(scored(weighted), k=2)
    expected = metric(scored(repeated, weights=False), k=2)
    assert found.value == close(expected.value)
    assert found.coverage == close(expected.coverage)


@each_metric
@given(rows=WEIGHTED)
def test_rows_without_weight_are_not_there(
    metric: Metric, rows: list[Row]
) -> None:
    found = metric(scored(rows))
    expected = metric(scored([row for row in rows if row.weight]))
    assert found.value == close(expected.value)
    assert found.num_groups == expected.num_groups


@each_metric
@given(rows=UNWEIGHTED, data=st.data())
def test_ranks_alone_count(
    metric: Metric, rows: list[Row], data: st.DataObject
) -> None:
    """Not the scores, nor the order of the rows, to the last bit."""
    expected = metric(scored(rows, weights=False)).value
    moved = [row._replace(score=np.exp(5 * row.score) - 40) for row in rows]
    assert metric(scored(moved, weights=False)).value == expected
    shuffled = data.draw(st.permutations(rows))
    assert metric(scored(shuffled, weights=False)).value == expected


@pytest.mark.parametrize(
    "chosen",
    [
        partial(ndcg, k=3),
        partial(recall, k=3),
        partial(hit_rate, k=3),
        mrr,
    ],
)
def test_a_constant_score_is_as_good_as_chance(
    chosen: Callable[[ScoredRows], GroupMean],
) -> None:
    """The positive row of ten is at each position equally often."""
    found = chosen(ScoredRows.of([1] + [0] * 9, [0.5] * 10, [7] * 10))
    expected = {
        ndcg: np.sum(1 / np.log2([2, 3, 4])) / 10,
        recall: 0.3,
        hit_rate: 0.3,
        mrr: np.mean(1 / np.arange(1, 11)),
    }[getattr(chosen, "func", chosen)]
    assert found.value == close(expected)


def test_a_long_tie_keeps_its_digits() -> None:
    """300 of 100,000 rows are positive: chances that fall for long."""
    rows, positives, k = 100_000, 300, 40
    labels = np.arange(rows) < positives
    found = hit_rate(ScoredRows.of(labels, np.zeros(rows), np.zeros(rows)), k)
    none = comb(rows - positives, k) / comb(rows, k)
    assert found.value == close(1 - none)


def test_ties_do_not_reach_into_other_groups() -> None:
    rows = ScoredRows.of([1, 0, 0, 1], [0.5, 0.5, 0.5, 0.9], [1, 2, 2, 1])
    assert mrr(rows).value == 1
    assert gauc(rows).value is None


@each_metric
@pytest.mark.parametrize(
    ("labels", "weights"),
    [([], []), ([0, 0], [1, 1]), ([1, 0], [0, 0])],
    ids=["no row", "no positive row", "no weight"],
)
def test_what_cannot_be_computed_is_none(
    metric: Metric, labels: list[int], weights: list[float]
) -> None:
    groups = ["a"] * len(labels)
    found = metric(ScoredRows.of(labels, labels, groups, weights))
    assert found.value is None
    assert found.num_groups == 0
    assert found.coverage == (0 if sum(weights) else None)


@each_metric
def test_groups_are_needed(metric: Metric) -> None:
    with pytest.raises(ValueError, match="groups: expected a group for each"):
        metric(ScoredRows.of([1, 0], [0.5, 0.1]))


@each_of_positions
@pytest.mark.parametrize("k", [0, -1, 2.5, "3", True])
def test_k_is_a_count(metric: Metric, k: int) -> None:
    rows = ScoredRows.of([1, 0], [0.5, 0.1], ["a", "a"])
    with pytest.raises(ValueError, match=r"k: expected an integer .*Received"):
        metric(rows, k=k)
