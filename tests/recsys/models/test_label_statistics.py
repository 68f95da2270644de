from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys import DataError
from recsys import Dataset
from recsys import Schema
from recsys.data import ImageDataset
from recsys.data import Images
from recsys.models.label_statistics import constant_predictions
from recsys.models.label_statistics import target_scales

NAN = float("nan")


def dataset(**labels: Any) -> Dataset:
    kinds = {"watch": "binary", "price": "regression"}
    schema = Schema(
        "shop", {"user": "id"}, {task: kinds[task] for task in labels}
    )
    rows = pd.DataFrame(labels, dtype="float64").assign(user=1)
    return Dataset(schema, {"train": rows})


def test_by_hand() -> None:
    """Missing labels do not count; the price has the variance 2² * 2 / 3."""
    data = dataset(watch=[1, 0, 0, NAN], price=[1, 3, 5, NAN])
    assert constant_predictions(data) == {
        "watch": pytest.approx(1 / 3),
        "price": 3.0,
    }
    assert target_scales(data) == {"price": pytest.approx((8 / 3) ** 0.5)}


@pytest.mark.parametrize("labels", [[0.1] * 7, [4.0, NAN], [1e30, 1e30]])
def test_equal_labels_have_the_scale_one(labels: list[float]) -> None:
    data = dataset(price=labels)
    assert target_scales(data) == {"price": 1.0}
    assert constant_predictions(data)["price"] == pytest.approx(labels[0])


def test_a_task_without_labels_is_left_out() -> None:
    data = dataset(watch=[NAN, NAN], price=[NAN, NAN])
    assert target_scales(data) == constant_predictions(data) == {}


@pytest.mark.parametrize("size", [1e-30, 1e30, 2e38])
def test_labels_of_any_size(size: float) -> None:
    data = dataset(price=[-size, size])
    assert target_scales(data)["price"] == pytest.approx(size)
    assert constant_predictions(data)["price"] == 0


@pytest.mark.parametrize("labels", [[1e9, 1e9 + 1], [0, 1e-44]])
def test_labels_that_float32_cannot_tell_apart(labels: list[float]) -> None:
    with pytest.raises(DataError, match=r"column 'price'.*float32.*Received"):
        target_scales(dataset(price=labels))


def test_shares_of_classes() -> None:
    """A class that no training row has keeps its place."""
    images = Images.of(np.zeros((4, 1, 1, 1), np.uint8), {"kind": [1, 1, 0, 1]})
    schema = Schema("photos", {"image": "image"}, {"kind": "multiclass"})
    classes = {"kind": 3}
    data = ImageDataset(schema, {"train": images}, classes)
    assert constant_predictions(data, classes) == {"kind": [0.25, 0.75, 0.0]}
