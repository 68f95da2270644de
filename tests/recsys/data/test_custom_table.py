from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.data import DataError
from recsys.data import load
from recsys.data import prepare
from recsys.data import write_table

COLUMNS: dict[str, Any] = {
    "ids": "user,cat_*",
    "numbers": "price",
    "binary": "click",
    "regression": "stars",
}


def log(users: Sequence[int]) -> pd.DataFrame:
    users = np.asarray(users)
    return pd.DataFrame(
        {
            "time": users,
            "user": users,
            "cat_1": users % 3,
            "cat_2": [f"c{user % 4}" for user in users],
            "price": users / 2,
            "click": users % 2,
            "stars": np.where(users % 2, 5.0, np.nan),
        }
    )


@pytest.fixture
def raw_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    write_table(log(range(100)), folder / "log.csv")
    write_table(log(range(100, 110)), folder / "later.csv.gz")
    write_table(log(range(200, 206)), folder / "last.parquet")
    return folder


def prepared(raw_dir: Path, **options: Any) -> dict[str, list[int]]:
    """The users of each split."""
    out = raw_dir.parent / "out"
    given = {"train": "log.csv"} | COLUMNS | options
    prepare("table", raw_dir, out, progress=False, **given)
    dataset = load(out)
    return {
        name: dataset.split(name)["user"].tolist()
        for name in ("train", "validation", "test")
    }


def test_one_file(raw_dir: Path) -> None:
    splits = prepared(raw_dir)
    assert [len(split) for split in splits.values()] == [70, 15, 15]
    assert sorted(chain(*splits.values())) == list(range(100))
    schema = load(raw_dir.parent / "out").schema
    assert schema.name == "shop"
    assert schema.features == {
        "user": "id",
        "cat_1": "id",
        "cat_2": "id",
        "price": "number",
    }
    assert schema.tasks == {"click": "binary", "stars": "regression"}


def test_one_file_by_time(raw_dir: Path) -> None:
    splits = prepared(
        raw_dir, time="time", validation_share="0.1", test_share="0.2"
    )
    assert list(chain(*splits.values())) == list(range(100))
    assert [len(split) for split in splits.values()] == [70, 10, 20]


def test_a_time_is_no_feature_unless_it_is_named_otherwise(
    raw_dir: Path,
) -> None:
    prepared(raw_dir, ids="*", time="time")
    assert "time" not in load(raw_dir.parent / "out").schema.features


def test_three_files(raw_dir: Path) -> None:
    splits = prepared(raw_dir, validation="later.csv.gz", test="last.parquet")
    assert splits == {
        "train": list(range(100)),
        "validation": list(range(100, 110)),
        "test": list(range(200, 206)),
    }


@pytest.mark.parametrize("given", ["validation", "test"])
def test_two_files(raw_dir: Path, given: str) -> None:
    splits = prepared(raw_dir, **{given: "later.csv.gz"})
    assert splits[given] == list(range(100, 110))
    drawn = "test" if given == "validation" else "validation"
    assert len(splits[drawn]) == 15
    assert sorted(splits["train"] + splits[drawn]) == list(range(100))


def test_lists_from_python(raw_dir: Path) -> None:
    prepared(raw_dir, ids=["user"], numbers=["price", "cat_1"])
    features = load(raw_dir.parent / "out").schema.features
    assert features == {"user": "id", "price": "number", "cat_1": "number"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": "none.csv"}, "none.csv: expected a file"),
        ({"train": "log.tsv"}, "log.tsv: expected a file name ending"),
        ({"test": "none.csv"}, "none.csv: expected a file"),
        ({"numbers": "cost"}, "log.csv: expected a column 'cost'"),
        ({"numbers": "cat_2"}, "column 'cat_2', data row 1 (counted from 1): "
         "expected a finite number. Received: 'c0'"),
        ({"binary": "price"}, "column 'price': expected one type. Received: "
         "binary and number"),
        ({"binary": "cat_1"}, "column 'cat_1', data row 3 (counted from 1): "
         "expected 0, 1 or nothing. Received: 2"),
        ({"time": "day"}, "log.csv: expected a column 'day'"),
        ({"ids": [], "numbers": []}, "'features': expected column names"),
        ({"binary": [], "regression": []}, "'tasks': expected column names"),
        ({"validation_share": 0.9}, "The shares of validation and test must"),
        ({"validation_share": "some"}, "must be of type float. Received"),
        ({"label": "click"}, "must be among train, validation, test, ids"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_and_leaves_nothing(
    raw_dir: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match="Received") as caught:
        prepared(raw_dir, **options)
    assert message in str(caught.value)
    assert [path.name for path in raw_dir.parent.iterdir()] == ["shop"]


def test_a_column_that_another_file_lacks(raw_dir: Path) -> None:
    later = log(range(9)).drop(columns="price")
    write_table(later, raw_dir / "later.csv.gz")
    with pytest.raises(DataError, match=r"later\.csv\.gz: .*'price'"):
        prepared(raw_dir, test="later.csv.gz")


def test_a_file_without_rows(raw_dir: Path) -> None:
    write_table(log([]), raw_dir / "later.csv.gz")
    with pytest.raises(DataError, match=r"later\.csv\.gz: .*at least one row"):
        prepared(raw_dir, test="later.csv.gz")


def test_the_file_to_train_on_must_be_given(raw_dir: Path) -> None:
    with pytest.raises(ValueError, match=r"'table' must name train\. Received"):
        prepare("table", raw_dir, raw_dir.parent / "out", **COLUMNS)
