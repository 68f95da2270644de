from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data import load
from recsys.data import write_table
from recsys.data.split_dataset import SPLITS

SCHEMA = Schema(
    "shop", {"user": "id"}, {"click": "binary", "reason": "multiclass"}
)
ROWS = pd.DataFrame(
    {"user": [1, 2, 3], "click": [1.0, 0.0, None], "reason": [2.0, None, 0.0]}
)


@pytest.fixture
def write_folder(tmp_path: Path) -> Callable[..., Path]:
    """Writes a data folder; the columns of one split may be changed."""

    def write(split: str = "test", **changes: Any) -> Path:
        (tmp_path / "dataset.json").write_text(SCHEMA.to_json())
        for name in SPLITS:
            rows = ROWS.assign(**changes) if name == split else ROWS
            write_table(rows, tmp_path / f"{name}.csv")
        return tmp_path

    return write


def test_classes_are_those_of_the_training_split(
    write_folder: Callable[..., Path],
) -> None:
    dataset = load(write_folder(reason=[0, 1, None]))
    assert dataset.num_classes == {"reason": 3}
    assert Dataset(SCHEMA, {"train": ROWS}).num_classes == {"reason": 3}


def test_a_sample_of_the_training_split_keeps_the_classes(
    write_folder: Callable[..., Path],
) -> None:
    train = write_folder("train", reason=[0, 0, 7])
    for seed_rows in (1, 2):
        sampled = load(train).with_train_rows(seed_rows)
        assert sampled.num_classes == {"reason": 8}


def test_a_class_that_training_has_not(
    write_folder: Callable[..., Path],
) -> None:
    folder = write_folder(reason=[1, None, 3])
    with pytest.raises(DataError) as caught:
        load(folder)
    assert str(caught.value) == (
        f"{folder / 'test.csv'}, column 'reason', data row 3 (counted from 1): "
        "expected one of the classes 0 to 2 of the training split. "
        "Received: 3.0"
    )


def test_a_class_that_training_has_not_in_memory() -> None:
    splits = {"train": ROWS, "test": ROWS.assign(reason=[1.0, 9.0, 2.0])}
    with pytest.raises(DataError) as caught:
        Dataset(SCHEMA, splits)
    assert str(caught.value).startswith(
        "data set 'shop', test split, column 'reason', data row 2 "
    )


def test_a_training_split_without_a_class(
    write_folder: Callable[..., Path],
) -> None:
    with pytest.raises(DataError, match=r"at least two classes.*no label"):
        load(write_folder("train", reason=None))


@pytest.mark.parametrize("place", ["features", "tasks"])
def test_a_column_with_the_name_of_a_prediction(place: str) -> None:
    other = {"reason_1": "id" if place == "features" else "binary"}
    schema = Schema(
        "shop",
        SCHEMA.features | (other if place == "features" else {}),
        SCHEMA.tasks | (other if place == "tasks" else {}),
    )
    with pytest.raises(DataError) as caught:
        Dataset(schema, {"train": ROWS.assign(reason_1=[0, 1, 1])})
    assert str(caught.value) == (
        "data set 'shop': expected no column 'reason_1', which is the "
        "name of a prediction of the task 'reason'. Received: one of that name"
    )
