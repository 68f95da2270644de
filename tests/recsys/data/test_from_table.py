from dataclasses import replace
from itertools import chain
from typing import Any

import pandas as pd
import pytest

from recsys.data import DataError
from recsys.data import Schema
from recsys.data import dataset_from_table
from recsys.data.split import SplitSummary
from recsys.data.split import Unseen

SCHEMA = Schema("logs", {"user": "id", "age": "number"}, {"click": "binary"})
SPLITS = ("train", "validation", "test")


def table(num_rows: int = 100) -> pd.DataFrame:
    """Row n has time n in an order that is not that of the rows."""
    numbers = [(7 * number) % num_rows for number in range(num_rows)]
    return pd.DataFrame(
        {
            "time": numbers,
            "user": numbers,
            "age": 30.0,
            "click": [number % 2 for number in numbers],
        },
        index=[5] * num_rows,
    )


def users(rows: pd.DataFrame, **options: Any) -> dict[str, list[int]]:
    dataset = dataset_from_table(rows, SCHEMA, **options)
    return {name: dataset.split(name)["user"].tolist() for name in SPLITS}


def test_drawn_splits_are_disjoint_and_complete() -> None:
    drawn = users(table())
    assert [len(drawn[name]) for name in SPLITS] == [70, 15, 15]
    assert sorted(chain(*drawn.values())) == list(range(100))
    assert drawn["test"] != sorted(drawn["test"])


def test_the_seed_decides() -> None:
    assert users(table(), seed=1) == users(table(), seed=1)
    assert users(table(), seed=1) != users(table(), seed=2)


@pytest.mark.parametrize("kind", [int, float, str, "datetime64[ns]"])
def test_the_latest_rows_are_the_test(kind: Any) -> None:
    rows = table(10)
    rows["time"] = (rows["time"] + 1).astype(kind)
    if kind is str:
        rows["time"] = "2026-01-" + rows["time"].str.zfill(2)
    splits = users(rows, time="time", validation=0.2, test=0.3)
    assert splits == {
        "train": [0, 1, 2, 3, 4],
        "validation": [5, 6],
        "test": [7, 8, 9],
    }


def test_the_schema_may_name_the_time() -> None:
    schema = replace(SCHEMA, time="time")
    dataset = dataset_from_table(table(), schema)
    assert dataset.split("test")["time"].tolist() == list(range(85, 100))
    drawn = dataset_from_table(table(), schema, split="random")
    times = drawn.split("test")["time"].tolist()
    assert times != sorted(times)
    assert drawn.summary()["test"].times == (min(times), max(times))


def test_a_format_says_how_to_read_the_time() -> None:
    rows = table(10)
    days = pd.to_datetime("2026-01-28") + pd.to_timedelta(rows["time"], "D")
    rows["time"] = days.dt.strftime("%d.%m.%Y").to_numpy()
    splits = users(rows, time="time", time_format="%d.%m.%Y")
    assert list(chain(*splits.values())) == list(range(10))


def test_the_summary_tells_times_and_unseen_ids() -> None:
    summary = dataset_from_table(table(), SCHEMA, time="time").summary()
    assert summary["train"] == SplitSummary(70, (0, 69))
    assert summary["test"].times == (85, 99)
    assert summary["test"].unseen == {"user": Unseen(15, 1.0, 1.0)}


def test_rows_of_one_time_keep_their_order() -> None:
    rows = table(10).assign(time=0)
    splits = users(rows, time="time")
    assert list(chain(*splits.values())) == rows["user"].tolist()


def test_only_the_columns_of_the_schema_are_kept() -> None:
    train = dataset_from_table(table(), SCHEMA).split("train")
    assert list(train) == ["user", "age", "click"]
    assert train["click"].dtype == "float64"
    assert list(train.index) == list(range(70))


def test_a_wrong_value_is_named_by_its_row_in_the_table() -> None:
    rows = table()
    rows["click"] = [0] * 41 + [2] + [0] * 58
    with pytest.raises(DataError) as caught:
        dataset_from_table(rows, SCHEMA)
    assert str(caught.value) == (
        "logs, column 'click', data row 42 (counted from 1): expected 0, 1 or "
        "nothing. Received: 2"
    )


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (None, "logs: expected a column 'time'. Received: the columns ['user'"),
        ([1, 2, None, 4], "logs, column 'time', data row 3 (counted from 1): "
         "expected a time in each row. Received: nothing"),
        ([1, "a", 2, 3], "logs, column 'time', data row 2 (counted from 1): "
         "expected a time of the same kind as in data row 1. Received: 'a'"),
    ],
)  # fmt: skip
def test_a_wrong_time(times: list[Any] | None, message: str) -> None:
    rows = table(4).drop(columns="time")
    if times is not None:
        rows["time"] = times
    with pytest.raises(DataError) as caught:
        dataset_from_table(rows, SCHEMA, time="time")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("validation", "test"), [(0, 0.1), (0.1, -0.1), (0.5, 0.5), (0.1, 1)]
)
def test_a_share_outside_its_bounds(validation: float, test: float) -> None:
    with pytest.raises(ValueError, match="shares") as caught:
        dataset_from_table(table(), SCHEMA, validation, test)
    assert str(caught.value) == (
        "The shares of validation and test must be positive, and less than 1 "
        f"together. Received: {{'validation': {validation}, 'test': {test}}}"
    )


@pytest.mark.parametrize("num_rows", [0, 1, 2])
def test_too_few_rows(num_rows: int) -> None:
    with pytest.raises(DataError) as caught:
        dataset_from_table(table(4)[:num_rows], SCHEMA)
    assert str(caught.value) == (
        f"logs: expected enough rows for 3 splits. Received: {num_rows} rows"
    )
