from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.baselines.bias import Bias
from recsys.data import Dataset
from recsys.data import Schema
from recsys.errors import DataError
from recsys.models.additive_biases import fit_biases
from tests.recsys.baselines.cases import ids

OPTIONS = {"lambda-user": 2.0, "lambda-item": 0.5}


def data(texts: bool, features: Any = None) -> Dataset:
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 5, 60), rng.integers(0, 4, 60)
    frame = pd.DataFrame(
        {
            "user": ids(users, texts),
            "item": ids(items, texts),
            "like": (users % 2 == items % 2).astype(float),
            "stars": 1.0 + users % 2 + items,
            "kind": (users + items) % 3.0,
            "weight": rng.integers(1, 4, 60).astype(float),
        }
    )
    frame.loc[::7, "stars"] = np.nan
    schema = Schema(
        "log",
        features or {"user": "id", "item": "id"},
        {"like": "binary", "stars": "regression", "kind": "multiclass"},
        weight="weight",
    )
    return Dataset(schema, dict.fromkeys(("train", "validation"), frame))


def test_the_ridge_regression_of_all_biases() -> None:
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 4, 50), rng.integers(0, 3, 50)]
    targets, weights = rng.normal(size=(50, 1)), rng.uniform(0.5, 2, 50)
    mean, users, items = fit_biases(targets, codes, [5, 4], [2.0, 0.5], weights)
    design = np.concatenate([np.eye(5)[codes[0]], np.eye(4)[codes[1]]], axis=1)
    left = design.T @ (weights[:, None] * design)
    left += np.diag([2.0] * 5 + [0.5] * 4)
    assert mean == pytest.approx(np.average(targets[:, 0], weights=weights))
    right = design.T @ (weights * (targets[:, 0] - mean))
    found = np.concatenate([users, items])[:, 0]
    np.testing.assert_allclose(found, np.linalg.solve(left, right), atol=1e-8)
    assert users[-1] == items[-1] == 0  # Whoever is unknown.


@pytest.mark.parametrize("texts", [False, True])
def test_predictions(texts: bool, tmp_path: Any) -> None:
    dataset = data(texts)
    model = Bias.fit(dataset, OPTIONS)
    frame = dataset.split("train")
    found = model.predict(frame)
    assert found["kind"].shape == (60, 3)
    np.testing.assert_allclose(found["kind"].sum(axis=1), 1)
    assert ((found["like"] > 0) & (found["like"] < 1)).all()
    known = frame["stars"].notna()
    errors = (found["stars"] - frame["stars"])[known]
    assert (errors**2).mean() < 0.1 * frame["stars"].var()
    model.write(tmp_path)
    again = Bias.read(tmp_path, dataset).predict(frame)
    for task in found:
        np.testing.assert_array_equal(again[task], found[task])


def test_whoever_is_unknown_gets_the_mean() -> None:
    dataset = data(texts=False)
    row = pd.DataFrame({"user": ids([77], False), "item": ids([77], False)})
    train = dataset.split("train")
    there = train["stars"].notna()
    mean = np.average(train["stars"][there], weights=train["weight"][there])
    found = Bias.fit(dataset, OPTIONS).predict(row)
    assert found["stars"] == pytest.approx(mean)


def test_it_needs_a_user_or_an_item() -> None:
    dataset = data(texts=False)
    schema = Schema("log", {"weight": "number"}, {"like": "binary"})
    nobody = Dataset(schema, dataset.splits)
    with pytest.raises(DataError, match=r"'user' or the 'item'.*\['weight'\]"):
        Bias.fit(nobody, OPTIONS)
