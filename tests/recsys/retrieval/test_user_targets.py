from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.data import Schema
from recsys.retrieval.user_targets import UserTargets
from recsys.retrieval.user_targets import times_of

BIG = 2**53


def collected(targets: UserTargets) -> list[tuple[int, list[int]]]:
    """Each user's row and sorted targets."""
    found = []
    for user, row in enumerate(targets.rows.tolist()):
        _, items = targets.pairs(np.array([user]))
        found.append((row, sorted(items.tolist())))
    return found


@pytest.mark.parametrize("ids", [[BIG + 1, BIG + 2], ["1", "01"]])
def test_by_hand(ids: list[Any]) -> None:
    first, second = ids
    users = pd.Series([second, first, second, second, None], dtype=object)
    items = pd.Series([first, first, second, first, first])
    numbers = np.array([3, 3, 1, 3, 3])
    targets = UserTargets.of([(users, items, numbers, None)])
    assert collected(targets) == [(0, [1, 3]), (1, [3])]
    whose, found = targets.pairs(np.array([0, 1]))
    assert whose.tolist() == [0, 0, 1]
    assert found.tolist() == [1, 3, 3]


def test_unknown_items_are_told_apart() -> None:
    users = pd.Series(["a"] * 5)
    items = pd.Series(["new", "newer", "new", "known", None])
    targets = UserTargets.of([(users, items, np.array([0, 0, 0, 2, 0]), None)])
    assert collected(targets) == [(0, [0, 0, 0, 2])]


def test_parts_are_one_split() -> None:
    """A text in one part makes texts of the integers of the others."""
    parts: list[Any] = [
        (pd.Series([7]), pd.Series([BIG + 1]), np.array([0]), None),
        (pd.Series([], dtype=object), pd.Series([]), np.array([]), None),
        (pd.Series(["7"]), pd.Series([BIG + 1]), np.array([0]), None),
        (pd.Series(["x"]), pd.Series([f"{BIG}"]), np.array([0]), None),
    ]
    assert collected(UserTargets.of(parts)) == [(0, [0]), (2, [0])]


def test_the_query_is_the_first_row_in_time() -> None:
    users, items = pd.Series([1, 2, 1]), pd.Series([5, 5, 6])
    times = np.array([30, 20, 10])
    targets = UserTargets.of([(users, items, np.array([1, 1, 2]), times)])
    assert collected(targets) == [(1, [1]), (2, [1, 2])]
    assert targets.within(0, 2).tolist() == [0]
    assert targets.within(2, 3).tolist() == [1]


def test_dates_sort_as_numbers_do() -> None:
    schema = Schema("log", {"user": "id"}, {"buy": "binary"}, time="day")
    frame = pd.DataFrame({"day": ["2026-02-01", "2026-01-31"]})
    assert np.argsort(times_of(frame, schema)).tolist() == [1, 0]
    untimed = Schema("log", {"user": "id"}, {"buy": "binary"})
    assert times_of(frame, untimed) is None


def test_no_rows_at_all() -> None:
    targets = UserTargets.of([])
    assert targets.counts.tolist() == targets.rows.tolist() == []
