from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from recsys.baselines.bias import Bias
from recsys.baselines.biased_mf import BiasedMF
from recsys.data import Dataset
from recsys.data import Schema
from recsys.errors import DataError
from recsys.errors import FileError
from tests.recsys.baselines.cases import ids

# What NumPy computes is the same on every backend.
pytestmark = pytest.mark.once("torch")

OPTIONS = {"lambda": 1.0, "lambda-user": 2.0, "lambda-item": 2.0, "factors": 3}
TASKS = {"like": "binary", "stars": "regression", "kind": "multiclass"}
TEXTS = pytest.mark.parametrize("texts", [False, True])
USERS, ITEMS = 60, 40


def planted(rows: int, seed: int, texts: bool) -> pd.DataFrame:
    """Labels of the product of vectors with two places, and of chance."""
    taste = np.random.default_rng(99)
    of_users, of_items = (taste.normal(size=(n, 2)) for n in (USERS, ITEMS))
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, USERS, rows), rng.integers(0, ITEMS, rows)
    score = (of_users[users] * of_items[items]).sum(axis=1)
    frame = pd.DataFrame(
        {
            "user": ids(users, texts),
            "item": ids(items, texts),
            "like": (2 * score + rng.logistic(size=rows) > 0).astype(float),
            "stars": 300 + 100 * (score + rng.normal(size=rows)),
            "kind": np.digitize(score + rng.normal(size=rows), [-1, 1]) * 1.0,
            "weight": rng.integers(0, 4, rows).astype(float),
        }
    )
    for place, task in enumerate(TASKS):
        frame.loc[place :: 5 + place, task] = np.nan
    return frame


def dataset_of(
    train: pd.DataFrame, weight: str | None = "weight", **others: Any
) -> Dataset:
    schema = Schema("log", {"user": "id", "item": "id"}, TASKS, weight=weight)
    splits = dict.fromkeys(("train", "validation", "test"), train)
    return Dataset(schema, splits, **others)


@TEXTS
def test_products_are_found_where_biases_find_nothing(texts: bool) -> None:
    dataset = dataset_of(planted(6000, 0, texts))
    test = planted(3000, 1, texts)
    options = OPTIONS | {"lambda": 5.0}
    found = BiasedMF.fit(dataset, options).predict(test)
    biases = Bias.fit(dataset, options).predict(test)
    like, stars, kind = (test[task].notna().to_numpy() for task in TASKS)
    labels = test["like"][like].to_numpy()
    assert roc_auc_score(labels, found["like"][like]) > 0.75
    assert roc_auc_score(labels, biases["like"][like]) < 0.6
    errors = [
        ((own["stars"] - test["stars"])[stars] ** 2).mean()
        for own in (found, biases)
    ]
    assert errors[0] < 0.6 * errors[1]
    classes = test["kind"][kind].to_numpy(int)
    shares = [
        own["kind"][kind][np.arange(len(classes)), classes]
        for own in (found, biases)
    ]
    assert np.log(shares[0]).mean() > np.log(shares[1]).mean() + 0.1
    np.testing.assert_allclose(found["kind"].sum(axis=1), 1)


def test_the_form_of_ids_does_not_matter() -> None:
    first, other = (
        BiasedMF.fit(dataset_of(frame), OPTIONS).predict(frame)
        for frame in (planted(300, 0, texts) for texts in (False, True))
    )
    for task in TASKS:
        np.testing.assert_allclose(first[task], other[task], atol=1e-9)


@TEXTS
def test_of_whoever_is_unknown_the_rest_is_known(texts: bool) -> None:
    frame = planted(300, 0, texts)
    if not texts:
        frame["user"] = frame["user"].astype("Int64")
    frame.loc[::11, "user"] = pd.NA
    model = BiasedMF.fit(dataset_of(frame), OPTIONS)
    (factors,) = model.factors["stars"]
    number = model.ids.by_column["item"].get_loc(ids([5], texts)[0])
    rows = pd.DataFrame({"user": ids([77, 77], texts)})
    rows["item"] = ids([77, 5], texts)
    known = factors.mean + factors.items[0][number]
    found = model.predict(rows)
    np.testing.assert_allclose(found["stars"], [factors.mean, known])
    logits = np.log(found["like"] / (1 - found["like"]))
    (factors,) = model.factors["like"]
    known = factors.mean + factors.items[0][number]
    np.testing.assert_allclose(logits, [factors.mean, known])


def test_a_weight_is_how_often_a_row_counts() -> None:
    frame = planted(300, 0, False)
    often = frame.loc[frame.index.repeat(frame["weight"].astype(int))]
    often = often.reset_index(drop=True)
    weighted = BiasedMF.fit(dataset_of(frame), OPTIONS)
    repeated = BiasedMF.fit(dataset_of(often, None), OPTIONS)
    rows = often.head(50)
    for task, values in weighted.predict(rows).items():
        again = repeated.predict(rows)[task]
        np.testing.assert_allclose(again, values, rtol=1e-9)


def test_the_unit_of_a_label_does_not_matter() -> None:
    frame = planted(300, 0, False)
    other = frame.assign(stars=frame["stars"] * 1000 - 7)
    found, scaled = (
        BiasedMF.fit(dataset_of(own), OPTIONS).predict(frame)["stars"]
        for own in (frame, other)
    )
    np.testing.assert_allclose(scaled, found * 1000 - 7)


@TEXTS
def test_what_was_written_predicts_the_same(
    texts: bool, tmp_path: Path
) -> None:
    frame = planted(300, 0, texts)
    dataset = dataset_of(frame, num_classes={"kind": 3})
    model = BiasedMF.fit(dataset, OPTIONS)
    model.write(tmp_path)
    again = BiasedMF.read(tmp_path, dataset).predict(frame)
    for task, values in model.predict(frame).items():
        np.testing.assert_array_equal(again[task], values)
    np.save(tmp_path / "task_0_items.npy", np.zeros((1, 3, ITEMS + 1)))
    with pytest.raises(FileError, match=r"task_0_items.*\(1, 4, 41\).*3, 41"):
        BiasedMF.read(tmp_path, dataset)


def test_labels_all_alike_and_none() -> None:
    frame = planted(300, 0, False)
    frame["like"], frame["stars"], frame["kind"] = 1.0, 2.5, np.nan
    dataset = dataset_of(frame, num_classes={"kind": 4})
    found = BiasedMF.fit(dataset, OPTIONS).predict(frame)
    assert (found["like"] > 0.99).all()
    np.testing.assert_allclose(found["stars"], 2.5, atol=1e-3)
    np.testing.assert_allclose(found["kind"], 0.25)
    frame["stars"] = np.nan
    found = BiasedMF.fit(dataset, OPTIONS).predict(frame)
    assert not found["stars"].any()


@pytest.mark.parametrize("features", [{"user": "id"}, {"item": "id"}])
def test_it_needs_a_user_and_an_item(features: Any) -> None:
    frame = planted(30, 0, False)
    schema = Schema("log", features, {"like": "binary"})
    alone = Dataset(schema, dict.fromkeys(("train", "validation"), frame))
    message = r"that is the 'user', and another.*Received: the features"
    with pytest.raises(DataError, match=message):
        BiasedMF.fit(alone, OPTIONS)
