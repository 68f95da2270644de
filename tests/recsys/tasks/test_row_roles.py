"""What a row counts, and what it belongs to, in the metrics of every task."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.data import Dataset
from recsys.data import Schema
from recsys.errors import DataError
from recsys.metrics import ScoredRows
from recsys.metrics import auc
from recsys.metrics import confidence_interval
from recsys.metrics import ece
from recsys.metrics import gauc
from recsys.models.label_statistics import constant_predictions
from recsys.models.label_statistics import target_scales
from recsys.tasks import TASKS
from recsys.tasks import Binary
from recsys.tasks import RowRoles
from recsys.tasks import Task
from recsys.tasks.row_weight import RowWeight
from tests.recsys.tasks.test_task import num_classes
from tests.recsys.tasks.test_task import predictions_of

pytestmark = pytest.mark.once("torch")

LABELS = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
WEIGHTS = np.array([2.0, 1.0, 0.0, 3.0, 1.0])
REPEATED = np.repeat(np.arange(5), WEIGHTS.astype(int))
SEVERAL = pytest.mark.parametrize("kind", [kind() for kind in TASKS.values()])


@SEVERAL
def test_a_row_of_weight_w_counts_as_w_rows(kind: Task) -> None:
    predictions = predictions_of(kind, 5)
    weighted = kind.measure(LABELS, predictions, roles=RowRoles(WEIGHTS))
    repeated = kind.measure(LABELS[REPEATED], predictions[REPEATED])
    assert weighted == pytest.approx(repeated)
    assert weighted != pytest.approx(kind.measure(LABELS, predictions))


@SEVERAL
def test_weights_that_are_all_one_change_no_metric(kind: Task) -> None:
    predictions = predictions_of(kind, 5)
    weighted = kind.measure(LABELS, predictions, roles=RowRoles(np.ones(5)))
    assert weighted == pytest.approx(kind.measure(LABELS, predictions))


@SEVERAL
def test_rows_that_all_weigh_nothing_are_as_good_as_none(kind: Task) -> None:
    roles = RowRoles(np.zeros(5), pd.Series(list("aabbb")), 3)
    metrics = kind.measure(LABELS, predictions_of(kind, 5), roles=roles)
    assert metrics == dict.fromkeys((*kind.metrics, *kind.group_metrics(3)))


@SEVERAL
def test_constants_and_scales_are_weighted(kind: Task) -> None:
    """The row without a label counts nowhere, whatever its weight."""
    rows = pd.DataFrame(
        {"user": range(6), "y": [*LABELS, np.nan], "w": [*WEIGHTS, 5.0]}
    )
    schema = Schema("shop", {"user": "id"}, {"y": kind}, weight="w")
    dataset = Dataset(schema, {"train": rows})
    repeated = LABELS[REPEATED]
    expected = kind.constant(repeated, num_classes(kind))
    assert constant_predictions(dataset)["y"] == pytest.approx(expected)
    if kind.standardizable:
        assert target_scales(dataset)["y"] == pytest.approx(repeated.std())


def test_metrics_within_groups_by_hand() -> None:
    """Of "a" the positive row is second of three; "b" has it first of two.

    The row without a group is in none; "c" has no positive row and no
    metric. The AUC of "a" is 1/2, of 3 rows; that of "b" 1, of 2.
    """
    groups = pd.Series(["a", "b", "a", None, "b", "a", "c"])
    labels = np.array([0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    scores = np.array([0.9, 0.4, 0.6, 1.0, 0.3, 0.1, 0.5])
    roles = RowRoles(groups=groups, k=1)
    metrics = Binary().measure(labels, scores, roles=roles)
    assert {name: metrics[name] for name in Binary().group_metrics(1)} == {
        "gauc": pytest.approx((3 * 0.5 + 2 * 1) / 5),
        "ndcg@1": 0.5,
        "recall@1": 0.5,
        "hit_rate@1": 0.5,
        "mrr": 0.75,
    }
    two = Binary().measure(labels, scores, roles=RowRoles(groups=groups, k=2))
    assert two["ndcg@2"] == pytest.approx((1 / math.log2(3) + 1) / 2)
    assert two["recall@2"] == 1.0


def test_each_row_without_a_group_is_drawn_by_itself() -> None:
    groups = pd.Series(["a", None, "b", "a", None])
    units = RowRoles(groups=groups, resamples=9).units
    assert len(set(units)) == 4
    assert units[0] == units[3]
    assert RowRoles(groups=groups).units is None
    assert RowRoles(resamples=9).units is None


def test_intervals_of_the_metrics_of_a_binary_task() -> None:
    """Those of `confidence_interval`, of groups, and of rows without any."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 60).astype(float)
    scores = np.clip(0.3 * labels + 0.7 * rng.random(60), 0, 1)
    groups = pd.Series(np.arange(60) // 6)
    kind, weights = Binary(focal=2.0), rng.integers(1, 3, 60)
    plain = kind.measure(labels, scores, roles=RowRoles(weights, groups, 3))
    roles = RowRoles(weights, groups, 3, resamples=40)
    found = kind.measure(labels, scores, roles=roles)
    assert {name: found[name] for name in plain} == plain
    assert {*found} - {*plain} == {f"{name}_interval" for name in plain}
    grouped = ScoredRows.of(labels, scores, groups, weights)
    for name, metric in (("auc", auc), ("gauc", gauc), ("ece", ece)):
        expected = confidence_interval(metric, grouped, resamples=40)
        assert found[f"{name}_interval"] == [*expected]
    alone = kind.measure(labels, scores, roles=RowRoles(weights, resamples=40))
    rows = ScoredRows.of(labels, scores, weights=weights)
    expected = confidence_interval(auc, rows, resamples=40)
    assert alone["auc_interval"] == [*expected]
    low, high = found["optimized_loss_interval"]
    assert low < found["optimized_loss"] < high


@pytest.mark.parametrize("scores", [[], [np.nan, np.nan]])
def test_no_interval_of_no_metric(scores: list[float]) -> None:
    roles = RowRoles(groups=pd.Series(["a"] * len(scores)), resamples=5)
    labels = np.array([0.0, 1.0][: len(scores)])
    found = Binary().measure(labels, np.array(scores), roles=roles)
    names = [name for name in found if not name.endswith("_interval")]
    assert all(found[f"{name}_interval"] is None for name in names)


def test_a_diverged_model_has_no_metric_of_groups() -> None:
    roles = RowRoles(groups=pd.Series(["a", "a"]))
    metrics = Binary().measure(
        np.array([0.0, 1.0]), np.full(2, np.nan), roles=roles
    )
    assert metrics["gauc"] is metrics["ndcg@10"] is None


@pytest.mark.parametrize("bad", [-1.0, math.nan, None, "heavy", math.inf, 2e15])
def test_a_weight_is_there_and_not_negative(bad: Any) -> None:
    column = pd.Series([1.0, 0.0, bad], name="w")
    with pytest.raises(DataError) as caught:
        RowWeight().check(column, "log.csv")
    assert str(caught.value).startswith(
        "log.csv, column 'w', data row 3 (counted from 1): expected a number "
        "from 0 to 1e+15. Received: "
    )


def test_weights_may_be_texts() -> None:
    found = RowWeight().check(pd.Series(["1.5", "0"], name="w"), "log.csv")
    assert found.tolist() == [1.5, 0.0]
