from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import prepare
from recsys.data.datasets.published_subsample import published_subsample

COLUMNS = ["user", "item", "watch", "rating"]
ACTIVE = {7, 8}


def rows(counts: Mapping[int, int]) -> pd.DataFrame:
    """For each user, so many rated rows and as many unrated ones."""
    drawn = [
        (user, item, float(item < count), 4.0 if item < count else np.nan)
        for user, count in counts.items()
        for item in range(2 * count)
    ]
    return pd.DataFrame(drawn, columns=COLUMNS)


@pytest.fixture
def splits() -> dict[str, pd.DataFrame]:
    """300, 62 and 58 rows: 3 in 4 users have at most 14 rated ones."""
    return {
        "train": rows({1: 10, 2: 10, 3: 10, 4: 14, 5: 14, 6: 14, 7: 34, 8: 44}),
        "validation": rows({1: 20, 7: 6, 8: 5}),
        "test": rows({2: 25, 8: 4}),
    }


def test_sizes_are_those_of_the_published_code(
    splits: dict[str, pd.DataFrame],
) -> None:
    drawn = published_subsample(splits, 0, "films")
    # 300 / 15 rated and as many unrated rows; 62 / 15 and 58 / 15, rounded.
    assert {name: len(split) for name, split in drawn.items()} == {
        "train": 40,
        "validation": 4,
        "test": 4,
    }
    assert drawn["train"]["rating"].notna().sum() == 20
    assert drawn["train"]["watch"].sum() == 20


def test_rows_are_different_rows_of_the_most_active_users(
    splits: dict[str, pd.DataFrame],
) -> None:
    for name, drawn in published_subsample(splits, 0, "films").items():
        assert set(drawn["user"]) <= ACTIVE
        assert not drawn.duplicated().any()
        both = drawn.merge(splits[name], on=COLUMNS)
        assert len(both) == len(drawn)
        assert drawn.index.equals(pd.RangeIndex(len(drawn)))


def test_a_user_at_the_quantile_is_left_out(
    splits: dict[str, pd.DataFrame],
) -> None:
    """The quantile of 10, 14, 24 and 24 rated rows is 24: nobody is above."""
    splits["train"] = rows({1: 10, 2: 14, 3: 24, 4: 24})
    with pytest.raises(
        DataError, match=r"10 rated training rows .*Received: 0 rows"
    ):
        published_subsample(splits, 0, "films")


def test_rows_are_shuffled(splits: dict[str, pd.DataFrame]) -> None:
    watched = published_subsample(splits, 0, "films")["train"]["watch"]
    assert 3 < watched[:20].sum() < 17


def test_unrated_rows_are_of_users_whose_rated_rows_are_drawn() -> None:
    """Of 200 users above the quantile, 20 rated rows reach 20 at most."""
    few = dict.fromkeys(range(600), 0) | dict.fromkeys(range(600, 800), 1)
    train = rows({user: count + 1 for user, count in few.items()})
    drawn = published_subsample(
        dict.fromkeys(("train", "validation", "test"), train), 0, "films"
    )
    rated = drawn["train"][drawn["train"]["watch"] == 1]
    users = set(rated["user"])
    assert users < set(range(600, 800))
    for split in drawn.values():
        assert set(split["user"]) <= users


def test_the_draw_follows_from_the_seed(
    splits: dict[str, pd.DataFrame],
) -> None:
    first, same, other = (
        published_subsample(splits, seed, "films") for seed in (1, 1, 2)
    )
    for name in splits:
        assert_frame_equal(first[name], same[name])
    assert not first["train"].equals(other["train"])


def test_too_few_rows_are_refused(splits: dict[str, pd.DataFrame]) -> None:
    splits["test"] = rows({1: 29, 8: 0})
    with pytest.raises(
        DataError, match=r"at least 4 test rows of the users.*Received: 0 rows"
    ):
        published_subsample(splits, 0, "films")


@pytest.mark.parametrize("name", ["movielens-1m", "movielens-100k"])
def test_only_the_published_subsample_is_known(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(ValueError, match="`subsample` must be 'published'"):
        prepare(name, tmp_path, tmp_path / "out", subsample="small")


@pytest.mark.slow
def test_the_subsample_of_movielens_1m(real_data: Path, tmp_path: Path) -> None:
    out = tmp_path / "subsample"
    sizes = prepare(
        "movielens-1m", real_data / "ml-1m", out, subsample="published"
    )
    assert sizes == {"train": 209_946, "validation": 14_996, "test": 13_330}
    drawn = Dataset.read(out)
    train = drawn.split("train")
    assert train["user"].nunique() == 1_501
    assert train["watch"].sum() == train["rating"].notna().sum() == 104_973
    for split in ("validation", "test"):
        assert drawn.split(split)["user"].isin(train["user"]).all()
