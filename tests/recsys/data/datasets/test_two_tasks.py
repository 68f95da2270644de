from collections import Counter

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from rich.progress import Progress

from recsys.data.datasets.two_tasks import two_tasks

SILENT = Progress(disable=True)


@st.composite
def rating_tables(draw: st.DrawFn) -> pd.DataFrame:
    pair = st.tuples(st.integers(1, 6), st.sampled_from([2, 3, 5, 7, 11, 900]))
    pairs = draw(st.lists(pair, min_size=1, max_size=36, unique=True))
    rating = st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0])
    return pd.DataFrame(
        [(*pair, draw(rating)) for pair in pairs],
        columns=["user", "item", "rating"],
    )


@settings(deadline=None, max_examples=50)
@given(rating_tables(), st.integers(0, 99))
def test_positive_rows_are_the_ratings(
    ratings: pd.DataFrame, seed: int
) -> None:
    rows = two_tasks(ratings, seed, SILENT)[: len(ratings)]
    assert_frame_equal(rows[["user", "item", "rating"]], ratings)
    assert (rows["watch"] == 1).all()


@settings(deadline=None, max_examples=50)
@given(rating_tables(), st.integers(0, 99))
def test_negative_rows_are_unrated_unique_and_of_the_right_number(
    ratings: pd.DataFrame, seed: int
) -> None:
    rows = two_tasks(ratings, seed, SILENT)[len(ratings) :]
    assert (rows["watch"] == 0).all()
    assert rows["rating"].isna().all()
    pairs = list(zip(rows["user"], rows["item"], strict=True))
    rated = set(zip(ratings["user"], ratings["item"], strict=True))
    assert len(set(pairs)) == len(pairs)
    assert not rated & set(pairs)
    assert set(rows["item"]) <= set(ratings["item"])
    num_items = ratings["item"].nunique()
    number = Counter(rows["user"])
    for user, count in Counter(ratings["user"]).items():
        assert number[user] == min(count, num_items - count)


def test_negative_rows_come_by_ascending_user() -> None:
    ratings = pd.DataFrame(
        {"user": [9, 2, 4], "item": [1, 2, 3], "rating": [1.0, 2.0, 3.0]}
    )
    assert two_tasks(ratings, 0, SILENT)["user"][3:].tolist() == [2, 4, 9]


def test_the_seed_decides() -> None:
    ratings = pd.DataFrame(
        {"user": np.arange(50), "item": np.arange(50), "rating": 3.0}
    )
    rows = [two_tasks(ratings, seed, SILENT) for seed in (1, 1, 2)]
    assert rows[0].equals(rows[1])
    assert not rows[0].equals(rows[2])


def test_unrated_items_are_drawn_uniformly() -> None:
    users = np.arange(4_000)
    ratings = pd.DataFrame({"user": users, "item": users % 5, "rating": 3.0})
    rows = two_tasks(ratings, 0, SILENT)[len(users) :]
    # Each of 5 items is unrated by 3,200 users, who draw 1 of 4: 800 expected,
    # with a standard deviation of 24.5.
    counts = rows["item"].value_counts()
    assert ((counts - 800).abs() < 4 * 24.5).all()


def test_no_negative_row_where_everything_is_rated() -> None:
    ratings = pd.DataFrame({"user": [1, 2], "item": [7, 7], "rating": 3.0})
    assert len(two_tasks(ratings, 0, SILENT)) == 2
