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


def test_a_task_without_labels_is_left_out() -> None:
    data = dataset(watch=[NAN, NAN], price=[NAN, NAN])
    assert target_scales(data) == constant_predictions(data) == {}


def test_labels_that_cannot_be_standardised() -> None:
    with pytest.raises(DataError) as caught:
        target_scales(dataset(price=[1e9, 1e9 + 1]))
    assert str(caught.value).startswith(
        "data set 'shop', split 'train', column 'price': expected labels whose "
    )


def test_shares_of_classes() -> None:
    """A class that no training row has keeps its place."""
    images = Images.of(np.zeros((4, 1, 1, 1), np.uint8), {"kind": [1, 1, 0, 1]})
    schema = Schema("photos", {"image": "image"}, {"kind": "multiclass"})
    data = ImageDataset(schema, {"train": images}, {"kind": 3})
    assert constant_predictions(data) == {"kind": [0.25, 0.75, 0.0]}
