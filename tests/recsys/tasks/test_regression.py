import math

import numpy as np
import pytest

from recsys.data import DataError
from recsys.tasks import Regression
from tests.recsys.tasks.label_check import checked
from tests.recsys.tasks.label_check import refusal


@pytest.mark.parametrize("value", [3e38, -1.1e15])
def test_labels_whose_squared_error_is_infinite(value: float) -> None:
    assert refusal([1.0, value], Regression()) == (
        "a.csv, column 'x', data row 2 (counted from 1): expected a number of "
        f"at most 1e+15 in size. Received: {value}"
    )
    labels = checked([1e15, -1e15], Regression())
    assert labels.tolist() == [1e15, -1e15]


@pytest.mark.parametrize("value", ["four", "4,5", "1e99", "inf", "-Infinity"])
def test_text_that_is_no_finite_number(value: str) -> None:
    assert refusal(["1", "2", value, "five"], Regression()) == (
        "a.csv, column 'x', data row 3 (counted from 1): expected a finite "
        f"number. Received: {value!r}"
    )


def test_metrics_by_hand() -> None:
    """Errors of 1 and -2."""
    labels, predictions = np.array([4.0, 1.0]), np.array([3.0, 3.0])
    metrics = {"loss": 2.5, "mse": 2.5, "rmse": math.sqrt(2.5), "mae": 1.5}
    assert Regression().measure(labels, predictions) == metrics
    standardized = Regression().measure(labels, predictions, 10.0)
    loss = pytest.approx(0.025)
    assert standardized == {**metrics, "standardized_loss": loss}


def test_standardised_metrics_of_no_row() -> None:
    metrics = Regression().measure(np.zeros(0), np.zeros(0), 10.0)
    assert set(metrics) == {*Regression().metrics, "standardized_loss"}
    assert not any(metrics.values())


def test_labels_of_any_size_are_measured() -> None:
    labels, predictions = np.array([-2e38, 1e38]), np.array([2e38, 0.0])
    metrics = Regression().measure(labels, predictions, 1.5e38)
    assert metrics["rmse"] == pytest.approx(2.915e38, 1e-3)
    assert metrics["standardized_loss"] == pytest.approx(3.78, 1e-2)


def test_scale_is_the_standard_deviation() -> None:
    """Of 1, 3 and 5: the variance is 2² * 2 / 3."""
    labels = np.array([1.0, 3.0, 5.0])
    scale = Regression().scale(labels, "price", "shop")
    assert scale == pytest.approx((8 / 3) ** 0.5)
    assert Regression().constant(labels, None) == 3.0


@pytest.mark.parametrize("labels", [[0.1] * 7, [4.0], [1e30, 1e30]])
def test_equal_labels_have_the_scale_one(labels: list[float]) -> None:
    assert Regression().scale(np.array(labels), "price", "shop") == 1.0


@pytest.mark.parametrize("size", [1e-30, 1e30, 2e38])
def test_scale_of_labels_of_any_size(size: float) -> None:
    labels = np.array([-size, size])
    scale = Regression().scale(labels, "price", "shop")
    assert scale == pytest.approx(size)
    assert Regression().constant(labels, None) == 0


@pytest.mark.parametrize("labels", [[1e9, 1e9 + 1], [0, 1e-44]])
def test_labels_that_float32_cannot_tell_apart(labels: list[float]) -> None:
    with pytest.raises(DataError) as caught:
        Regression().scale(np.array(labels), "price", "shop")
    assert str(caught.value).startswith(
        "shop, column 'price': expected labels whose differences float32 can "
        "represent; subtract a constant from them, or change their unit. "
        "Received: "
    )
