from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.baselines.gbdt import Gbdt
from recsys.baselines.tree_columns import TreeColumns
from recsys.data import Dataset
from recsys.data import Schema
from recsys.errors import FileError
from tests.recsys.baselines.cases import ids

# What trees see and predict is the same on every backend.
pytestmark = pytest.mark.once("torch")

OPTIONS = {"learning-rate": 0.2, "leaves": 7, "min-rows": 5}
TASKS = {"like": "binary", "stars": "regression", "kind": "multiclass"}
FEATURES = {
    "user": "id",
    "item": "id",
    "age": "number",
    "tags": "ids",
    "history": {"type": "sequence", "of": "item"},
    "place": {"type": "vector", "size": 2},
}


def data(texts: bool = False, rows: int = 400, seed: int = 0) -> Dataset:
    """Likes that two features tell together."""
    rng = np.random.default_rng(seed)

    def frame() -> pd.DataFrame:
        users, items = rng.integers(0, 30, rows), rng.integers(0, 300, rows)
        ages, ends = rng.normal(size=rows), rng.integers(0, 4, rows)
        tags = [ids(range(end), texts).to_numpy() for end in ends]
        found = pd.DataFrame(
            {
                "user": ids(users, texts),
                "item": ids(items, texts),
                "age": np.where(rng.random(rows) < 0.1, np.nan, ages),
                "tags": pd.Series(tags),
                "history": pd.Series([ids([i], texts) for i in items]).map(
                    lambda one: one.to_numpy()
                ),
                "place": [*rng.normal(size=(rows, 2))],
                "like": ((ages > 0) & (users % 2 == 0)).astype(float),
                "stars": 3.0 * (ends == 2) + ages,
                "kind": (users % 3).astype(float),
                "weight": rng.integers(0, 3, rows).astype(float),
            }
        )
        found.loc[::7, "stars"] = np.nan
        return found

    schema = Schema("log", FEATURES, TASKS, weight="weight")
    splits = {name: frame() for name in ("train", "validation", "test")}
    return Dataset(schema, splits)


def losses(model: Gbdt, rows: Any) -> tuple[float, float, float]:
    found = model.predict(rows)
    wrong = (found["like"] > 0.5) != (rows["like"] == 1)
    squared = (found["stars"] - rows["stars"]) ** 2
    other = found["kind"].argmax(axis=1) != rows["kind"]
    return wrong.mean(), squared.mean() / rows["stars"].var(), other.mean()


@pytest.mark.parametrize("texts", [False, True])
def test_what_features_tell_together(texts: bool, tmp_path: Path) -> None:
    dataset = data(texts)
    model, test = Gbdt.fit(dataset, OPTIONS), dataset.split("test")
    like, stars, kind = losses(model, test)
    assert like < 0.15
    assert stars < 0.2
    assert kind < 0.1
    found = model.predict(test)
    np.testing.assert_allclose(found["kind"].sum(axis=1), 1, atol=1e-6)
    model.write(tmp_path)
    again = Gbdt.read(tmp_path, dataset).predict(test)
    for task in TASKS:
        np.testing.assert_array_equal(again[task], found[task])


def test_an_id_of_one_row_does_not_tell_its_label() -> None:
    """Means are estimated out of fold: labels of chance stay chance."""
    rng = np.random.default_rng(0)
    schema = Schema("log", {"user": "id"}, {"like": "binary"})
    labels = rng.integers(0, 2, 1000).astype(float)
    splits = {
        name: pd.DataFrame({"user": ids(users, True), "like": labels})
        for name, users in (
            ("train", range(1000)),
            ("validation", range(1000, 2000)),
        )
    }
    model = Gbdt.fit(Dataset(schema, splits), OPTIONS)
    for rows in splits.values():
        found = model.predict(rows)["like"]
        np.testing.assert_allclose(found, labels.mean(), atol=0.1)


@pytest.mark.parametrize("texts", [False, True])
def test_columns_of_lists(texts: bool, tmp_path: Path) -> None:
    features = {
        "tags": {"type": "ids", "weighted": True},
        "place": {"type": "vector", "size": 2},
    }
    schema = Schema("log", features, {"like": "binary"})
    first, second, third, unknown = ids([0, 1, 2, 9], texts)
    lists = [
        [f"{second}:2", f"{first}:0.5"],
        [],
        [f"{second}:1", f"{third}:4", f"{second}:1"],
    ]
    frame = pd.DataFrame(
        {
            "tags": pd.Series([np.array(one, object) for one in lists]),
            "place": [*np.arange(6.0).reshape(3, 2)],
            "like": [1.0, 0.0, 1.0],
        }
    )
    dataset = Dataset(schema, dict.fromkeys(("train", "validation"), frame))
    columns = TreeColumns.fit(dataset)
    numbers, categories, known = columns.encode(frame)
    # Length, then the second id, which is the most frequent one.
    wanted = [[2, 2, 0.5, 0, 0, 1], [0, 0, 0, 0, 2, 3], [3, 2, 0, 4, 4, 5]]
    np.testing.assert_array_equal(numbers, wanted)
    assert (categories, known.shape) == ([], (3, 0))
    columns.write(tmp_path)
    later = frame.head(1).copy()
    later["tags"] = pd.Series([np.array([f"{unknown}:3"], object)])
    again = TreeColumns.read(tmp_path, schema).encode(later)[0]
    np.testing.assert_array_equal(again, [[1, 0, 0, 0, 0, 1]])


def test_many_ids_are_counted_and_few_are_categories() -> None:
    features = {"user": "id", "item": "id"}
    rows = 300
    frame = pd.DataFrame(
        {
            "user": ids(np.arange(rows) % 3, True),
            "item": ids(np.arange(rows) // 2 * 2, True),
            "like": np.arange(rows) % 2.0,
        }
    )
    frame.loc[0, "item"] = ids([999], True)[0]
    for size, places in ((300, [0, 1]), (600, [0])):
        train = pd.concat([frame] * 2).head(size).reset_index(drop=True)
        if size == 600:
            more = ids(range(1000, 1300), True).to_numpy()
            train.loc[300:, "item"] = more
        splits = dict.fromkeys(("train", "validation"), train)
        schema = Schema("log", features, {"like": "binary"})
        dataset = Dataset(schema, splits)
        numbers, categories, known = TreeColumns.fit(dataset).encode(train)
        assert categories == places
        if size == 600:
            counted = train["item"].map(train["item"].value_counts())
            np.testing.assert_array_equal(numbers[:, 1], counted)
        np.testing.assert_array_equal(numbers[:, 0], known[:, 0])


def test_labels_that_are_few_or_all_alike() -> None:
    dataset = data(rows=40)
    train = dataset.split("train").copy()
    train["like"], train["kind"] = 1.0, train["kind"].where(train.index < 9)
    train.loc[2, "kind"] = 2.0
    splits = {**dataset.splits, "train": train}
    few = Dataset(dataset.schema, splits, num_classes={"kind": 3})
    found = Gbdt.fit(few, OPTIONS).predict(dataset.split("test"))
    assert (found["like"] == 1).all()
    counted = train[train["kind"].notna()]
    shares = [
        counted["weight"][counted["kind"] == one].sum() for one in range(3)
    ]
    shares = np.array(shares) / counted["weight"].sum()
    np.testing.assert_allclose(found["kind"], np.tile(shares, (40, 1)))


def test_trees_that_are_broken(tmp_path: Path) -> None:
    dataset = data(rows=60)
    Gbdt.fit(dataset, OPTIONS).write(tmp_path)
    file = tmp_path / "task_0.txt"
    whole = file.read_text(encoding="utf-8")
    for broken in ("", "trees", whole.replace("max_feature_idx=", "x=")):
        file.write_text(broken, encoding="utf-8")
        with pytest.raises(FileError, match=r"task_0.txt: expected the trees"):
            Gbdt.read(tmp_path, dataset)
