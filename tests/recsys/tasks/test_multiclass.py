import math

import numpy as np
import pandas as pd
import pytest

from recsys.data import DataError
from recsys.tasks import Multiclass

PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.3, 0.3, 0.4]])


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


def test_one_class_is_none() -> None:
    with pytest.raises(DataError) as caught:
        Multiclass().num_classes(pd.Series([0, 0], name="kind"), "train.npz")
    assert str(caught.value) == (
        "train.npz, column 'kind': expected at least two classes. Received: "
        "the class 0"
    )
