import math
from typing import Any

import numpy as np
import pytest

from recsys.tasks import Binary
from tests.recsys.tasks.label_check import checked
from tests.recsys.tasks.label_check import refusal


@pytest.mark.parametrize(
    "values",
    [[1, 0, None], ["1", "0", ""], [True, False, None], ["1.0", 0, None]],
)
def test_labels(values: list[Any]) -> None:
    labels = checked(values, Binary(), object)
    assert labels.dtype == "float64"
    np.testing.assert_array_equal(labels, [1, 0, np.nan])


@pytest.mark.parametrize("value", [3, -1, 0.5, "yes", float("inf")])
def test_labels_outside_their_type(value: Any) -> None:
    assert refusal([0, 1, None, value], Binary(), object) == (
        "a.csv, column 'x', data row 4 (counted from 1): expected 0, 1 or "
        f"nothing. Received: {value!r}"
    )


def test_metrics_by_hand() -> None:
    """The positive row is above one of the two negative ones.

    0.5 is no more than a half: a 0, as its label says.
    """
    labels, predictions = np.array([1.0, 0, 0]), np.array([0.8, 0.5, 0.9])
    assert Binary().measure(labels, predictions) == {
        "loss": pytest.approx(
            -(math.log(0.8) + math.log(0.5) + math.log(0.1)) / 3
        ),
        "auc": 0.5,
        "pr_auc": 0.5,
        "accuracy": pytest.approx(2 / 3),
        # Each row in a bin of its own.
        "ece": pytest.approx((0.2 + 0.5 + 0.9) / 3),
        "normalized_entropy": pytest.approx(
            (math.log(0.8) + math.log(0.5) + math.log(0.1))
            / (math.log(1 / 3) + 2 * math.log(2 / 3))
        ),
    }


def test_auc_is_the_share_of_pairs_in_the_right_order() -> None:
    """A pair that is given the same probability counts a half."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200).astype(float)
    predictions = rng.integers(0, 10, 200) / 10
    above = predictions[labels == 1][:, None]
    below = predictions[labels == 0]
    pairs = (above > below) + 0.5 * (above == below)
    metrics = Binary().measure(labels, predictions)
    assert metrics["auc"] == pytest.approx(pairs.mean())


def test_auc_of_one_class_is_null() -> None:
    metrics = Binary().measure(np.ones(2), np.array([0.8, 0.5]))
    assert metrics["auc"] is None
    assert metrics["normalized_entropy"] is None
    assert metrics["accuracy"] == 0.5


def test_predictions_of_a_diverged_model_have_a_loss_of_nan() -> None:
    metrics = Binary().measure(np.ones(2), np.array([0.8, np.nan]))
    assert math.isnan(metrics.pop("loss") or 0)
    assert set(metrics.values()) == {None}


def test_certain_mistake_costs_what_keras_says() -> None:
    metrics = Binary().measure(np.zeros(1), np.ones(1))
    assert metrics["loss"] == pytest.approx(-math.log(1e-7), rel=1e-6)


def test_constant_is_the_base_rate() -> None:
    assert Binary().constant(np.array([1.0, 0, 0, 0]), None) == 0.25


def test_calibration_is_drawn() -> None:
    labels, predictions = np.array([0, 1, np.nan]), np.array([0.2, 0.7, 0.5])
    figures = Binary().figures("click, test split", labels, predictions)
    assert list(figures) == ["calibration"]
    title = figures["calibration"].axes[0].get_title()
    assert title == "Calibration of click, test split"
