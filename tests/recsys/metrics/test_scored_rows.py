from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.metrics import ScoredRows
from recsys.metrics import auc
from recsys.metrics import gauc

GOOD = {
    "labels": [1, 0, 1],
    "scores": [0.5, 0.25, 0.75],
    "groups": ["a", "b", "a"],
    "weights": [1, 2, 0],
}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("labels", [1, 0, 2], r"labels, row 3 .* 0 or 1. Received: 2"),
        ("labels", [1, np.nan, 0], r"labels, row 2 .* 0 or 1. Received: nan"),
        ("labels", ["1", "0", "1"], r"labels: expected one column of numbers"),
        ("labels", [[1], [0], [1]], r"labels: .*shape \(3, 1\)"),
        ("scores", [0.5, 0.5, np.nan], r"scores, row 3 .*Received: nan"),
        ("scores", [0.5], r"scores: expected 3 rows, .*Received: 1"),
        ("groups", ["a", None, "b"], r"groups, row 2 .*a group for each row"),
        ("groups", [1.0, 2.0, np.nan], r"groups, row 3 .*Received: nan"),
        ("groups", ["a"], r"groups: expected 3 rows"),
        ("weights", [1, -1, 1], r"weights, row 2 .*Received: -1"),
        ("weights", [1, np.nan, 1], r"weights, row 2 .*Received: nan"),
        ("weights", [np.inf, 1, 1], r"weights, row 1 .*Received: inf"),
        ("weights", [1, 1], r"weights: expected 3 rows"),
    ],
)
def test_what_is_wrong_is_named(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ScoredRows.of(**(GOOD | {name: value}))


@pytest.mark.parametrize(
    "groups",
    [
        [3, 7, 3, 7],
        np.array([3, 7, 3, 7], np.uint8),
        ["a", "b", "a", "b"],
        np.array(["a", "b", "a", "b"]),
        [("a", 1), ("a", 2), ("a", 1), ("a", 2)],
        [1, "1", 1, "1"],
        pd.Series(["a", "b", "a", "b"], [5, 6, 7, 8], dtype="category"),
        pd.to_datetime(["2020-01-01", "2021-01-01"] * 2),
    ],
    ids=str,
)
def test_groups_are_anything_hashable(groups: Any) -> None:
    rows = ScoredRows.of([1, 0, 0, 1], [4, 3, 2, 1], groups)
    assert rows.groups.tolist() == [0, 1, 0, 1]
    assert gauc(rows).value == 0.5


def test_zeros_of_either_sign_tie() -> None:
    assert auc(ScoredRows.of([1, 0], [0.0, -0.0])) == 0.5


def test_infinite_scores_are_the_highest_and_the_lowest() -> None:
    rows = ScoredRows.of([1, 0, 0], [np.inf, 5.0, -np.inf])
    assert auc(rows) == 1


def test_columns_of_pandas_are_taken_by_position() -> None:
    frame = pd.DataFrame(GOOD, index=[2, 0, 1])
    found = ScoredRows.of(**{name: frame[name] for name in GOOD})
    assert gauc(found).value is None
    assert auc(found) == auc(ScoredRows.of(**GOOD)) == 1


def test_weights_are_multiplied_and_rankings_kept() -> None:
    rows = ScoredRows.of([1, 0, 1], [0.5, 0.6, 0.7], weights=[1, 2, 4])
    more = rows.reweighted(np.array([3, 1, 0]))
    assert more.weights.tolist() == [3, 2, 0]
    assert auc(more) == 0
    assert more.rankings is rows.rankings
