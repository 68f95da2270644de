import numpy as np
import pandas as pd
import pytest

from recsys.data import Dataset
from recsys.data import load
from recsys.data import synthetic
from recsys.data.datasets.synthetic import planted_groups

SPLITS = ("train", "validation", "test")


def all_rows(dataset: Dataset) -> pd.DataFrame:
    return pd.concat([dataset.split(split) for split in SPLITS])


@pytest.fixture(scope="module")
def default() -> Dataset:
    return synthetic()


@pytest.fixture(scope="module")
def rows(default: Dataset) -> pd.DataFrame:
    return all_rows(default)


def test_splits_are_disjoint_and_complete(
    default: Dataset, rows: pd.DataFrame
) -> None:
    sizes = [len(default.split(split)) for split in SPLITS]
    assert sizes == [157_500, 22_500, 20_000]
    assert not rows.duplicated(["user", "item"]).any()


def test_columns(rows: pd.DataFrame) -> None:
    assert list(rows.columns) == ["user", "item", "age", "watch", "rating"]
    assert rows["user"].between(0, 1_999).all()
    assert rows["item"].between(0, 999).all()
    assert rows["watch"].isin((0, 1)).all()
    assert 0.4 < rows["watch"].mean() < 0.6
    rated = rows["rating"].notna()
    assert (rated == (rows["watch"] == 1)).all()
    assert sorted(rows["rating"][rated].unique()) == [1, 2, 3, 4, 5]


def test_users_and_items_are_long_tailed(rows: pd.DataFrame) -> None:
    for column in ("user", "item"):
        counts = rows[column].value_counts()
        assert counts.iloc[: len(counts) // 10].sum() > 0.3 * len(rows)
        assert counts.iloc[0] > 10 * counts.iloc[-1]


def test_groups_have_their_own_tastes(rows: pd.DataFrame) -> None:
    """The items that one half of a group watches, its other half watches."""
    group = planted_groups()[rows["user"]]
    half = rows["user"] % 2
    shares = rows.groupby([half.rename("half"), group, "item"])["watch"].mean()
    first, second = (shares[part].unstack(level=0) for part in (0, 1))
    table = pd.concat([first, second], axis=1).corr().to_numpy()
    across = table[:8, 8:]
    assert (np.diag(across) > 0.6).all()
    assert np.abs(across[~np.eye(8, dtype=bool)]).mean() < 0.35


def test_tasks_are_related(rows: pd.DataFrame) -> None:
    group = planted_groups()[rows["user"]]
    means = rows.groupby([group, "item"])[["watch", "rating"]].mean().dropna()
    assert 0.3 < means["watch"].corr(means["rating"]) < 0.95


def test_age_tells_the_group(rows: pd.DataFrame) -> None:
    users = rows.groupby("user")["age"].first()
    guessed = ((users - 15) // 7.5).clip(0, 7)
    assert 0.9 < (guessed == planted_groups()[users.index]).mean() < 1


def test_groups_are_of_equal_size() -> None:
    sizes = np.bincount(planted_groups(101, 4, seed=3))
    assert sorted(sizes) == [25, 25, 25, 26]


def test_the_seed_decides() -> None:
    sizes = {"num_rows": 400, "num_users": 50, "num_items": 40}
    frames = [all_rows(synthetic(**sizes, seed=seed)) for seed in (1, 1, 2)]
    assert frames[0].equals(frames[1])
    assert not frames[0].equals(frames[2])


def test_load_passes_the_seed_on(default: Dataset) -> None:
    assert load("synthetic").split("test").equals(default.split("test"))
    other = load("synthetic", seed=1).split("test")
    assert not other.equals(default.split("test"))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"num_rows": 0}, r"`num_rows`.*Received: num_rows=0 of 2000000"),
        ({"num_rows": 10**7}, r"`num_rows` must be between 1 and half"),
        ({"num_items": 1}, r"`num_items` must be at least 2.*num_items=1"),
        ({"num_groups": 0}, r"`num_groups` must be between.*num_groups=0"),
        ({"num_users": 7}, r"`num_groups`.*num_groups=8, num_users=7"),
        ({"seed": -1}, r"`seed` must not be negative. Received: seed=-1"),
    ],
)
def test_arguments_outside_their_bounds(
    sizes: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        synthetic(**sizes)
