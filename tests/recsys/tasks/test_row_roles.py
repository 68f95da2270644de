"""What a row counts, and what it belongs to, in the metrics of every task."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.data import Dataset
from recsys.data import Schema
from recsys.errors import DataError
from recsys.models.label_statistics import constant_predictions
from recsys.models.label_statistics import target_scales
from recsys.tasks import TASKS
from recsys.tasks import Binary
from recsys.tasks import RowRoles
from recsys.tasks import Task
from recsys.tasks.row_weight import RowWeight
from tests.recsys.tasks.test_task import num_classes
from tests.recsys.tasks.test_task import predictions_of

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
