import logging
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data import load
from recsys.data import prepare
from recsys.data import write_table
from recsys.data.labels import check_labelled
from recsys.data.labels import warn_of_missing_labels

TASKS = ["click", "stars"]
SPLITS = ("train", "validation", "test")
SCHEMA = Schema(
    "shop", {"user": "id"}, {"click": "binary", "stars": "regression"}
)


def split(*labelled: str) -> pd.DataFrame:
    """Two rows, of which the last has a label of some tasks."""
    rows = pd.DataFrame({"user": [1, 2]})
    return rows.assign(
        **{task: [None, 1.0 if task in labelled else None] for task in TASKS}
    ).astype(dict.fromkeys(TASKS, "float64"))


def write(folder: Path, **splits: pd.DataFrame) -> Path:
    folder.mkdir()
    for name in SPLITS:
        write_table(splits.get(name, split(*TASKS)), folder / f"{name}.csv")
    (folder / "dataset.json").write_text(SCHEMA.to_json())
    return folder


@pytest.mark.parametrize("name", SPLITS)
def test_a_split_without_any_label_is_an_error(
    tmp_path: Path, name: str
) -> None:
    folder = write(tmp_path / "shop", **{name: split()})
    with pytest.raises(DataError) as caught:
        load(folder)
    assert str(caught.value) == (
        f"{folder / name}.csv: expected a label of at least one of "
        "['click', 'stars']. Received: none in 2 rows"
    )


@pytest.mark.parametrize("name", SPLITS)
def test_a_label_of_one_task_is_enough(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path / "shop", **{name: split("stars")})
    assert len(load(folder).split(name)) == 2


def test_a_task_without_labels_is_named_with_its_split(
    caplog: pytest.LogCaptureFixture,
) -> None:
    splits = {
        "train": split("stars"),
        "validation": split("click"),
        "test": split(*TASKS),
    }
    with caplog.at_level(logging.WARNING):
        warn_of_missing_labels(splits, TASKS, "shop")
    assert caplog.messages == [
        "shop: the train split has no label of the task 'click', which will "
        "not be learned.",
        "shop: the validation split has no label of the task 'stars', which "
        "has neither loss nor metrics there.",
    ]


def test_a_data_set_without_labels_is_not_written(tmp_path: Path) -> None:
    splits = {name: split(*TASKS) for name in SPLITS} | {"test": split()}
    with pytest.raises(DataError) as caught:
        Dataset(SCHEMA, splits).write(tmp_path / "out")
    assert str(caught.value).startswith(
        f"{tmp_path / 'out' / 'test.parquet'}: expected a label of"
    )
    assert not list(tmp_path.iterdir())


def prepared(folder: Path, **columns: Any) -> dict[str, int]:
    rows = pd.DataFrame({"day": range(100), "user": range(100)} | columns)
    folder.mkdir()
    write_table(rows, folder / "log.csv")
    options = {"train": "log.csv", "time": "day", "ids": "user"}
    tasks = ",".join(columns)
    return prepare(
        "table", folder, folder.parent / "out", binary=tasks, **options
    )


def test_labels_that_end_before_the_test(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    click, order = [0, 1] * 50, [0, 1] * 40 + [None] * 20
    with pytest.raises(DataError, match=r"out/test\.parquet: .* \['order'\]"):
        prepared(tmp_path / "a", order=order)
    assert not (tmp_path / "out").exists()
    prepared(tmp_path / "b", click=click, order=order)
    assert caplog.messages == [
        f"{tmp_path / 'out'}: the test split has no label of the task 'order', "
        "which has neither loss nor metrics there."
    ]


def test_labels_of_rows_that_count_nothing_are_none() -> None:
    split = pd.DataFrame({"click": [1.0, None], "w": [0.0, 2.0]})
    check_labelled(split, ["click"], "test.csv")
    with pytest.raises(DataError, match=r"\['click'\] with a 'w' above 0\. R"):
        check_labelled(split, ["click"], "test.csv", "w")
