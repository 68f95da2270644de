import time
import zipfile
from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import load
from recsys.data import prepare

SPLITS = ("train", "validation", "test")


def all_rows(dataset: Dataset) -> pd.DataFrame:
    return pd.concat([dataset.split(split) for split in SPLITS])


@pytest.fixture(scope="module")
def one_million(
    real_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Dataset:
    out = tmp_path_factory.mktemp("movielens") / "1m"
    start = time.perf_counter()
    rows = prepare("movielens-1m", real_data / "ml-1m", out)
    assert time.perf_counter() - start < 60
    assert rows == {"train": 1_574_602, "validation": 224_944, "test": 199_950}
    return load(out)


@pytest.mark.slow
def test_movielens_1m(one_million: Dataset) -> None:
    rows = all_rows(one_million)
    assert rows["watch"].sum() == 1_000_209
    assert not rows.duplicated(["user", "item"]).any()
    assert (rows["rating"].notna() == (rows["watch"] == 1)).all()
    for split in SPLITS:
        share = one_million.split(split)["watch"].mean()
        assert share == pytest.approx(1_000_209 / 1_999_496, abs=1e-5)


def test_movielens_1m_is_split_as_published(
    real_data: Path, one_million: Dataset
) -> None:
    """Only which movies the negative rows got depends on an unknown seed."""
    file = real_data / "ml-1m-published-split" / "validation.csv.gz"
    if not file.exists():
        pytest.skip(f"{file} is not there")
    published = pd.read_csv(file)
    ours = one_million.split("validation")
    columns = ["user", "watch", "rating"]
    assert_frame_equal(ours[columns], published[columns], check_dtype=False)
    positive = published["watch"] == 1
    assert (ours["item"] == published["item"])[positive].all()


def test_movielens_100k(real_data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rows = prepare("movielens-100k", real_data / "ml-100k", out)
    assert rows == {"train": 157_500, "validation": 22_500, "test": 20_000}
    everything = all_rows(load(out))
    assert everything["watch"].sum() == 100_000
    assert not everything.duplicated(["user", "item"]).any()


@pytest.mark.slow
def test_all_features_of_movielens_100k(
    real_data: Path, tmp_path: Path
) -> None:
    out, plain = tmp_path / "all", tmp_path / "ids"
    folder = real_data / "ml-100k"
    prepare("movielens-100k", folder, out, features="all")
    prepare("movielens-100k", folder, plain)
    dataset, ids = load(out), load(plain)
    train = dataset.split("train")
    watched = train[train["watch"] == 1].groupby("user")["item"].agg(set)
    for split in SPLITS:
        rows = dataset.split(split)
        columns = ["user", "item", "watch", "rating"]
        assert_frame_equal(rows[columns], ids.split(split)[columns])
        assert rows["history"].map(len).max() == 50
        for row in rows[:500].itertuples():
            assert row.item not in row.history
            assert set(row.history) <= watched[row.user]
    assert train["age"].between(7, 73).all()
    assert train["occupation"].nunique() == 21
    genres = {genre for row in train["genres"] for genre in row}
    assert len(genres) == 19


@pytest.mark.slow
@pytest.mark.parametrize("features", ["ids", "all"])
def test_movielens_100k_by_time(
    real_data: Path, tmp_path: Path, features: str
) -> None:
    out = tmp_path / "out"
    folder = real_data / "ml-100k"
    rows = prepare(
        "movielens-100k", folder, out, features=features, split="time"
    )
    assert rows == {"train": 157_500, "validation": 22_500, "test": 20_000}
    dataset = load(out)
    assert (dataset.schema.group, dataset.schema.time) == ("user", "time")
    with zipfile.ZipFile(folder / "ml-100k.zip") as archive:
        ratings = pd.read_csv(
            archive.open("ml-100k/u.data"),
            sep="\t",
            names=["user", "item", "rating", "time"],
        )
    given = ratings.set_index(["user", "item"])["time"]
    times = {}
    for name in SPLITS:
        watched = dataset.split(name).query("watch == 1")
        at = given.loc[pd.MultiIndex.from_frame(watched[["user", "item"]])]
        times[name] = at.to_numpy()
        assert watched["time"].tolist() == times[name].tolist()
    assert times["train"].max() <= times["validation"].min()
    assert times["validation"].max() <= times["test"].min()
    if features == "ids":
        columns = ["user", "item", "watch", "rating", "time"]
        assert [*dataset.split("test")] == columns
        return
    by_user = dict([*ratings.groupby("user")])
    test = dataset.split("test").query("watch == 1")
    for row, at in [*zip(test.itertuples(), times["test"], strict=True)][::50]:
        own = by_user[row.user]
        # Movies of one second may stand in any order.
        last = own["time"][own["time"] < at].sort_values().tolist()[-50:]
        received = [given[row.user, item] for item in row.history]
        assert received == last


def test_a_release_without_times_is_not_split_by_them(tmp_path: Path) -> None:
    (tmp_path / "ratings.dat").write_text("1::2::3\n2::3::4\n")
    with pytest.raises(DataError, match="with times, to split by"):
        prepare("movielens-1m", tmp_path, tmp_path / "out", split="time")


def test_an_unknown_split(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`split` must be 'random' or 'time'"):
        prepare("movielens-1m", tmp_path, tmp_path / "out", split="users")


def test_unknown_features(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`features` must be 'ids' or 'all'"):
        prepare("movielens-1m", tmp_path, tmp_path / "out", features="more")
