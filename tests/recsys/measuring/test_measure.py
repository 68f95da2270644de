import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from recsys.data import Images
from recsys.measuring.measure import measure
from recsys.metrics import ExpertUse
from recsys.models.scorer import Scores
from recsys.tasks import Binary
from recsys.tasks import Multiclass
from recsys.tasks import Regression
from recsys.tasks import RowRoles

NAN = float("nan")
TASKS = {"watch": Binary(), "rating": Regression()}
WEIGHTS = {"watch": 0.9, "rating": 0.1}
FRAME = pd.DataFrame(
    {"watch": [1.0, 0.0, 0.0, NAN], "rating": [4.0, NAN, NAN, 1.0]}
)
SCORES = Scores(
    {
        "watch": np.array([0.8, 0.5, 0.9, 0.1]),
        "rating": np.array([3.0, 9.0, 9.0, 3.0]),
    },
    {"watch": np.array([1, 2, 2, 2]), "rating": np.array([1, 1, 1, 1])},
)
# Of the labels 1, 0 and 0 of "watch".
ENTROPY = -(math.log(1 / 3) + 2 * math.log(2 / 3)) / 3


def test_metrics_by_hand() -> None:
    bce = -(math.log(0.8) + math.log(0.5) + math.log(0.1)) / 3
    mse = (1**2 + 2**2) / 2
    assert measure(SCORES, FRAME, TASKS, WEIGHTS) == {
        "loss": pytest.approx(0.9 * bce + 0.1 * mse),
        "rows": 4,
        "tasks": {
            # The positive row is above one of the two negative ones. 0.5 is
            # no more than a half: a 0, as its label says.
            "watch": {
                "loss": pytest.approx(bce),
                "auc": 0.5,
                "pr_auc": 0.5,
                "accuracy": pytest.approx(2 / 3),
                "ece": pytest.approx((0.2 + 0.5 + 0.9) / 3),
                "normalized_entropy": pytest.approx(bce / ENTROPY),
            },
            "rating": {
                "loss": mse,
                "mse": mse,
                "rmse": pytest.approx(math.sqrt(mse)),
                "mae": 1.5,
            },
        },
        "experts_per_example": 1.375,
        "experts_per_example_by_task": {"watch": 1.75, "rating": 1.0},
    }


def test_balance_is_the_mean_of_levels_and_tasks() -> None:
    loads = {
        "watch": [np.array([4.0, 4.0]), np.array([8.0, 0.0])],
        "rating": [np.array([3.0, 1.0])],
    }
    metrics = measure(replace(SCORES, loads=loads), FRAME, TASKS, WEIGHTS)
    assert metrics["load_balance_by_task"] == {"watch": 0.75, "rating": 0.75}
    assert metrics["load_balance"] == 0.75
    assert metrics["balanced_experts_by_task"] == {"watch": 0.5, "rating": 0.0}
    assert metrics["balanced_experts"] == 0.25


def test_routing_of_levels_and_tasks() -> None:
    def use(*sets: int) -> ExpertUse:
        """Of rows with one expert each, of the two that there are."""
        weights = np.array([sets.count(1), sets.count(2)], float)
        return ExpertUse(np.array(sets, np.uint8)[:, None], weights, 0.0)

    levels = {"watch": [use(1, 1, 1, 1), use(1, 1, 2, 2)]}
    scores = replace(SCORES, use=levels | {"rating": [use(1, 1, 1, 1)] * 2})
    metrics = measure(scores, FRAME, TASKS, WEIGHTS)
    assert metrics["routing"] == {
        "watch": {
            "most_frequent_set": 0.75,
            "mutual_information": 0.5,
            "dead_experts": 1,
        },
        "rating": {
            "most_frequent_set": 1.0,
            "mutual_information": 0.0,
            "dead_experts": 2,
        },
    }
    assert "dead_experts" not in metrics
    shared = replace(scores, evaluated=np.array([1, 2, 2, 1]))
    assert measure(shared, FRAME, TASKS, WEIGHTS)["dead_experts"] == 1


def test_experts_of_all_tasks_are_averaged() -> None:
    assert "experts_evaluated" not in measure(SCORES, FRAME, TASKS, WEIGHTS)
    scores = replace(SCORES, evaluated=np.array([2, 3, 3, 1]))
    metrics = measure(scores, FRAME, TASKS, WEIGHTS)
    assert metrics["experts_evaluated"] == 2.25


def test_task_without_labels_is_null_and_counts_nothing() -> None:
    metrics = measure(SCORES, FRAME.assign(rating=NAN), TASKS, WEIGHTS)
    assert metrics["tasks"]["rating"] == dict.fromkeys(
        ("loss", "mse", "rmse", "mae")
    )
    without = measure(SCORES, FRAME.assign(watch=NAN), TASKS, WEIGHTS)
    assert without["tasks"]["watch"] == dict.fromkeys(
        ("loss", "auc", "pr_auc", "accuracy", "ece", "normalized_entropy")
    )
    watch = metrics["tasks"]["watch"]["loss"]
    assert metrics["loss"] == pytest.approx(0.9 * watch)


def test_standardised_task_counts_in_standard_deviations() -> None:
    metrics = measure(SCORES, FRAME, TASKS, WEIGHTS, {"rating": 10.0})
    watch, rating = metrics["tasks"]["watch"], metrics["tasks"]["rating"]
    assert rating["loss"] == rating["mse"] == 2.5
    assert rating["standardized_loss"] == pytest.approx(0.025)
    assert "standardized_loss" not in watch
    expected = 0.9 * watch["loss"] + 0.1 * 0.025
    assert metrics["loss"] == pytest.approx(expected)


def test_standardised_task_without_labels_counts_nothing() -> None:
    frame = FRAME.assign(rating=NAN)
    metrics = measure(SCORES, frame, TASKS, WEIGHTS, {"rating": 10.0})
    assert metrics["tasks"]["rating"]["standardized_loss"] is None
    watch = metrics["tasks"]["watch"]["loss"]
    assert metrics["loss"] == pytest.approx(0.9 * watch)


def test_constants_have_the_same_metrics() -> None:
    """Labels 1, 0, 0 against 0.25; 4 and 1 against 2."""
    constants = {"watch": 0.25, "rating": 2.0}
    scales = {"rating": 10.0}
    metrics = measure(SCORES, FRAME, TASKS, WEIGHTS, scales, constants)
    bce = -(math.log(0.25) + 2 * math.log(0.75)) / 3
    watch, rating = metrics["tasks"]["watch"], metrics["tasks"]["rating"]
    assert watch["constant"] == {
        "loss": pytest.approx(bce),
        "auc": 0.5,
        "pr_auc": pytest.approx(1 / 3),
        "accuracy": pytest.approx(2 / 3),
        "ece": pytest.approx(1 / 3 - 0.25),
        "normalized_entropy": pytest.approx(bce / ENTROPY),
    }
    assert rating["constant"] == {
        "loss": 2.5,
        "mse": 2.5,
        "rmse": pytest.approx(math.sqrt(2.5)),
        "mae": 1.5,
        "standardized_loss": pytest.approx(0.025),
    }
    assert metrics["constant"] == {
        "loss": pytest.approx(0.9 * bce + 0.1 * 0.025)
    }


def test_constant_classes_by_hand() -> None:
    scores = Scores({"kind": np.array([[0.9, 0.1], [0.9, 0.1]])}, {})
    rows = Images.of(np.zeros((2, 1, 1, 1), np.uint8), {"kind": [0, 1]})
    metrics = measure(
        scores,
        rows,
        {"kind": Multiclass()},
        {"kind": 1.0},
        constants={"kind": [0.2, 0.8]},
    )
    assert metrics["tasks"]["kind"]["constant"] == {
        "loss": pytest.approx(-(math.log(0.2) + math.log(0.8)) / 2),
        "accuracy": 0.5,
    }


def test_whole_has_no_constant_where_a_task_has_none() -> None:
    metrics = measure(SCORES, FRAME, TASKS, WEIGHTS, constants={"watch": 0.25})
    assert "constant" in metrics["tasks"]["watch"]
    assert "constant" not in metrics["tasks"]["rating"]
    assert "constant" not in metrics


def test_classes_by_hand() -> None:
    scores = Scores(
        {"kind": np.array([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.3, 0.3, 0.4]])},
        {"kind": np.array([1, 2, 2])},
    )
    rows = Images.of(np.zeros((3, 1, 1, 1), np.uint8), {"kind": [0, 2, 2]})
    tasks, weights = {"kind": Multiclass()}, {"kind": 2.0}
    loss = -(math.log(0.7) + 2 * math.log(0.4)) / 3
    assert measure(scores, rows, tasks, weights) == {
        "loss": pytest.approx(2 * loss),
        "rows": 3,
        "tasks": {
            "kind": {
                "loss": pytest.approx(loss),
                "accuracy": pytest.approx(2 / 3),
            }
        },
        "experts_per_example": pytest.approx(5 / 3),
        "experts_per_example_by_task": {"kind": pytest.approx(5 / 3)},
    }


def test_accuracies_of_several_tasks_are_averaged() -> None:
    """2 of 3 and, as the largest of two classes, 1 of 2."""
    scores = Scores(
        {
            "smiling": np.array([0.8, 0.6, 0.1]),
            "kind": np.array([[0.7, 0.3], [0.6, 0.4], [0.5, 0.5]]),
        },
        {},
    )
    rows = pd.DataFrame({"smiling": [1.0, 0.0, 0.0], "kind": [0, 1, NAN]})
    tasks = {"smiling": Binary(), "kind": Multiclass()}
    weights = {"smiling": 0.9, "kind": 0.1}
    constants = {"smiling": 0.4, "kind": [0.4, 0.6]}
    metrics = measure(scores, rows, tasks, weights, constants=constants)
    assert metrics["accuracy"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert metrics["constant"]["accuracy"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    unlabelled = rows.assign(kind=NAN)
    assert "accuracy" not in measure(scores, unlabelled, tasks, weights)


def test_a_constant_and_a_number_have_no_intervals() -> None:
    constants = {"watch": 0.5, "rating": 2.0}
    metrics = measure(
        SCORES,
        FRAME,
        TASKS,
        WEIGHTS,
        constants=constants,
        roles=RowRoles(resamples=5),
    )["tasks"]
    assert len(metrics["watch"]["loss_interval"]) == 2
    of_others = [*metrics["watch"]["constant"], *metrics["rating"]]
    assert not any(name.endswith("_interval") for name in of_others)
