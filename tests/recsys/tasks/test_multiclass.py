import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.data import DataError
from recsys.tasks import Multiclass
from tests.recsys.tasks.label_check import checked
from tests.recsys.tasks.label_check import refusal

PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.3, 0.3, 0.4]])


@pytest.mark.parametrize(
    "values",
    [[2, 0, None], ["2", "0", ""], ["2.0", 0, None], [99_999, 0, None]],
)
def test_labels(values: list[Any]) -> None:
    labels = checked(values, Multiclass(), object)
    assert labels.dtype == "float64"
    np.testing.assert_array_equal(labels, [float(values[0]), 0, np.nan])


@pytest.mark.parametrize("value", [-1, 0.5, 100_000, "shoes", float("inf")])
def test_labels_that_are_no_class(value: Any) -> None:
    assert refusal([0, 1, None, value], Multiclass(), object) == (
        "a.csv, column 'x', data row 4 (counted from 1): expected a class, 0 "
        f"to 99,999, or nothing. Received: {value!r}"
    )


def test_metrics_by_hand() -> None:
    assert Multiclass().measure(np.array([0.0, 2, 2]), PROBABILITIES) == {
        "loss": pytest.approx(-(math.log(0.7) + 2 * math.log(0.4)) / 3),
        "accuracy": pytest.approx(2 / 3),
    }


def test_a_class_that_was_ruled_out_costs_what_keras_says() -> None:
    metrics = Multiclass().measure(np.ones(1), np.array([[1.0, 0.0]]))
    assert metrics["loss"] == pytest.approx(-math.log(1e-7), rel=1e-6)
    assert metrics["accuracy"] == 0


def test_constant_is_the_share_of_each_class() -> None:
    """A class that no training row has keeps its place."""
    labels = np.array([1.0, 1, 0, 1])
    assert Multiclass().constant(labels, 3) == [0.25, 0.75, 0.0]


def test_classes_go_to_the_largest_label() -> None:
    labels = pd.Series([2, 0, 0], name="kind")
    assert Multiclass().num_classes(labels, "train.npz") == 3


@pytest.mark.parametrize(
    ("labels", "received"),
    [([0.0, math.nan], "the class 0"), ([math.nan] * 2, "no label")],
)
def test_one_class_is_none(labels: list[float], received: str) -> None:
    with pytest.raises(DataError) as caught:
        Multiclass().num_classes(pd.Series(labels, name="kind"), "train.npz")
    assert str(caught.value) == (
        "train.npz, column 'kind': expected at least two classes. Received: "
        + received
    )


def test_columns_are_numbered() -> None:
    columns = ["kind_0", "kind_1", "kind_2"]
    assert Multiclass().columns("kind", 3) == columns
