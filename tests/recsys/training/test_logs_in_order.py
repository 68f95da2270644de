from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.data import Dataset
from recsys.data import Schema
from recsys.training import logs_in_order
from recsys.training.logs_in_order import is_log_in_order

pytestmark = pytest.mark.once("torch")

LARGE = 2**53
KINDS = {"texts": str, "integers": lambda number: LARGE + number}
FEATURES = {
    "user": "id",
    "item": "id",
    "history": {"type": "sequence", "of": "item"},
}


def log(kind: str = "texts", split: str = "by time", **schema: Any) -> Dataset:
    """Forty users with six items each; neighbours' ids differ by one."""
    rows = pd.DataFrame(
        {
            "user": [KINDS[kind](n) for n in np.repeat(range(40), 6)],
            "item": [KINDS[kind](n % 7) for n in range(240)],
            "history": [[]] * 240,
            "time": np.tile(range(6), 40),
            "like": np.arange(240) % 2,
        }
    )
    if split == "by time":
        last = rows["time"] == 5
    else:
        last = pd.Series(np.random.default_rng(0).random(240) < 0.2)
    splits = {"train": rows[~last], "validation": rows[last]}
    roles = {"time": "time", **schema}
    features = roles.pop("features", FEATURES)
    return Dataset(
        Schema("log", features, {"like": "binary"}, **roles),
        {**splits, "test": rows[last]},
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_split_by_time_is_in_order(kind: str) -> None:
    assert is_log_in_order(log(kind), "all")
    assert not is_log_in_order(log(kind, "at random"), "all")


@pytest.mark.parametrize("kind", KINDS)
def test_new_and_missing_users_say_nothing(kind: str) -> None:
    # More rows than those of known users, all of them late or early.
    for time, split in ((0, "by time"), (9, "at random")):
        given = log(kind, split)
        rows = given.splits["validation"]
        new = rows.assign(user=KINDS[kind](99), time=time)
        missing = rows.assign(user=None, time=time)
        parts = [rows, new, missing, new]
        given.splits["validation"] = pd.concat(parts, ignore_index=True)
        assert is_log_in_order(given, "all") is (split == "by time")


def test_ids_that_are_texts_in_one_split_are_the_same_users() -> None:
    given = log("integers", "at random")
    rows = given.splits["validation"]
    texts = rows.assign(user=rows["user"].astype(str))
    given.splits["validation"] = pd.concat(
        [texts, texts.assign(user="new", time=9)], ignore_index=True
    )
    assert not is_log_in_order(given, "all")


def test_dates_are_times() -> None:
    given = log()
    for name, rows in given.splits.items():
        days = [f"2026-01-{1 + day:02}" for day in rows["time"]]
        given.splits[name] = rows.assign(time=days)
    assert is_log_in_order(given, "all")


@pytest.mark.parametrize("missing", ["history", "user", "time"])
def test_what_a_transformer_reads_must_be_there(missing: str) -> None:
    features = {name: FEATURES[name] for name in FEATURES if name != missing}
    time = None if missing == "time" else "time"
    assert not is_log_in_order(log(features=features, time=time), "all")


@pytest.mark.parametrize(
    ("name", "most"), [("MOST_ROWS", 200), ("MOST_ITEMS", 7)]
)
def test_large_logs_take_too_long(
    name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_in_order, name, most)
    assert is_log_in_order(log(), "all")
    monkeypatch.setattr(logs_in_order, name, most - 1)
    assert not is_log_in_order(log(), "all")


@pytest.mark.parametrize("kind", KINDS)
def test_some_user_has_two_rows_that_count(kind: str) -> None:
    given = log(kind)
    assert is_log_in_order(given, "like")
    rows = given.splits["train"]
    given.splits["train"] = rows.assign(like=(rows["time"] == 0).astype(int))
    assert is_log_in_order(given, "all")
    assert not is_log_in_order(given, "like")


def test_validation_rows_without_known_users_are_in_no_order() -> None:
    given = log()
    rows = given.splits["validation"]
    for left in (rows[:0], rows.assign(user="new")):
        given.splits["validation"] = left
        assert not is_log_in_order(given, "all")
