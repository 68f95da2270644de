import re

import hypothesis.strategies as st
import pandas as pd
import pytest
from hypothesis import given

from recsys.data.shares import cut_by_user
from recsys.errors import DataError

LARGE = 2**53 + 1


def test_each_user_gives_the_same_shares() -> None:
    rows = pd.DataFrame(
        {"user": [LARGE] * 10 + ["ann"] * 5, "item": range(15)}
    ).sample(frac=1, random_state=0, ignore_index=True)
    splits = cut_by_user(rows, "user", {"validation": 0.1, "test": 0.2}, 0, "")
    counts = {
        name: split["user"].value_counts().to_dict()
        for name, split in splits.items()
    }
    # 10 rows are cut at 7 and 8, 5 rows at 3.5 and 4, the even 4 each.
    assert counts == {
        "train": {LARGE: 7, "ann": 4},
        "validation": {LARGE: 1},
        "test": {LARGE: 2, "ann": 1},
    }
    assert sorted(pd.concat(splits.values())["item"]) == [*range(15)]


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=40),
    st.integers(0, 9),
    st.lists(st.sampled_from([0.1, 0.2, 0.25]), min_size=1, max_size=2),
)
def test_the_rows_of_a_user_are_cut_at_the_borders(
    users: list[int], seed: int, sizes: list[float]
) -> None:
    users += [9] * 10  # Ten rows have one in each split.
    rows = pd.DataFrame({"user": users, "row": range(len(users))})
    shares = dict(zip(["validation", "test"], sizes, strict=False))
    counts = rows["user"].value_counts()
    splits = cut_by_user(rows, "user", shares, seed, "rows")
    taken = pd.concat(splits.values())
    assert sorted(taken["row"]) == [*range(len(users))]
    for split in splits.values():
        assert split["row"].is_monotonic_increasing
    ends = 1 - sum(sizes)
    train = splits["train"]["user"].value_counts()
    for user, count in counts.items():
        assert train.get(user, 0) == round(ends * count)


def test_another_seed_draws_other_rows() -> None:
    rows = pd.DataFrame({"user": ["a"] * 30, "row": range(30)})
    drawn = [
        cut_by_user(rows, "user", {"test": 0.5}, seed, "rows")["test"]["row"]
        for seed in (0, 0, 1)
    ]
    assert drawn[0].tolist() == drawn[1].tolist() != drawn[2].tolist()


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"test": 0.1}, "log.txt: expected a user with enough rows for 2 "
         "splits. Received: at most 3 rows of a user"),
        ({"test": 0.0}, "The share of test must be positive, and less than 1. "
         "Received: {'test': 0.0}"),
        ({"validation": 0.5, "test": 0.5}, "The shares of validation and test "
         "must be positive, and less than 1 together. Received: "),
    ],
)  # fmt: skip
def test_shares_that_leave_nothing_are_refused(
    shares: dict[str, float], message: str
) -> None:
    rows = pd.DataFrame({"user": ["a", "a", "a", "b"]})
    error = DataError if "log.txt" in message else ValueError
    with pytest.raises(error, match=re.escape(message)):
        cut_by_user(rows, "user", shares, 0, "log.txt")
