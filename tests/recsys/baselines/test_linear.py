import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge

from recsys.baselines.linear import Linear
from recsys.baselines.linear import design
from recsys.baselines.tree_columns import TreeColumns
from recsys.data import Dataset
from recsys.data import Schema
from recsys.errors import FileError
from tests.recsys.baselines.cases import ids

# What SciPy and scikit-learn compute is the same on every backend.
pytestmark = pytest.mark.once("torch")

L2 = 2.0
OPTIONS = {"l2": L2}
TASKS = {"like": "binary", "stars": "regression", "kind": "multiclass"}
FEATURES = {"user": "id", "age": "number", "tags": "ids"}
USERS, TAGS, ROWS = 5, 4, 60
FORMS: dict[str, Callable[[Any], Any]] = {
    "small": lambda numbers: pd.Series(numbers, dtype="int64"),
    "large": lambda numbers: ids(numbers, False),
    "texts": lambda numbers: ids(numbers, True),
}


def frame_and_design(form: str) -> tuple[pd.DataFrame, Any]:
    """Rows with labels of chance, and what a linear model sees, dense."""
    rng, of = np.random.default_rng(0), FORMS[form]
    users = rng.permutation(np.arange(ROWS) % USERS)
    ages = np.where(np.arange(ROWS) % 9, rng.normal(40, 5, ROWS), np.nan)
    counts = rng.integers(0, 3, (ROWS, TAGS))
    tags = [of(np.repeat(np.arange(TAGS), row)).to_numpy() for row in counts]
    frame = pd.DataFrame(
        {
            "user": of(users),
            "age": ages,
            "tags": pd.Series(tags),
            "like": rng.integers(0, 2, ROWS).astype(float),
            "stars": users + rng.normal(size=ROWS),
            "kind": rng.integers(0, 3, ROWS).astype(float),
            "weight": rng.integers(0, 4, ROWS).astype(float),
        }
    )
    for place, task in enumerate(TASKS):
        frame.loc[place :: 5 + place, task] = np.nan
    standard = (ages - np.nanmean(ages)) / np.nanstd(ages)
    dense = [
        np.eye(USERS)[users],
        np.nan_to_num(standard)[:, None],
        np.isnan(ages)[:, None],
        counts / np.maximum(counts.sum(axis=1, keepdims=True), 1),
    ]
    return frame, np.concatenate(dense, axis=1)


def dataset_of(
    train: pd.DataFrame,
    tasks: Any = TASKS,
    features: Any = FEATURES,
    weight: str | None = "weight",
    **others: Any,
) -> Dataset:
    schema = Schema("log", features, tasks, weight=weight)
    splits = dict.fromkeys(("train", "validation", "test"), train)
    return Dataset(schema, splits, **others)


def assert_same(found: Any, expected: Any, atol: float = 1e-6) -> None:
    assert [*found] == [*expected]
    for task, values in expected.items():
        assert np.isfinite(found[task]).all()
        np.testing.assert_allclose(found[task], values, rtol=0, atol=atol)


@pytest.mark.parametrize("form", FORMS)
def test_as_scikit_learn_fits_a_dense_matrix(form: str) -> None:
    """Of rows with a label, each as often as its weight says."""
    frame, dense = frame_and_design(form)
    exact: Any = {"C": 1 / L2, "tol": 1e-10, "max_iter": 10_000}
    models = {
        "like": LogisticRegression(**exact),
        "stars": Ridge(L2, solver="cholesky"),
        "kind": LogisticRegression(**exact),
    }
    expected = {}
    for task, model in models.items():
        there = frame[task].notna().to_numpy()
        weights = frame["weight"][there]
        model.fit(dense[there], frame[task][there], weights)
        if task == "stars":
            expected[task] = model.predict(dense)
        else:
            expected[task] = model.predict_proba(dense)
    expected["like"] = expected["like"][:, 1]
    found = Linear.fit(dataset_of(frame), OPTIONS).predict(frame)
    assert_same(found, expected)


def test_the_form_of_ids_does_not_matter() -> None:
    first, *others = (
        Linear.fit(dataset_of(frame), OPTIONS).predict(frame)
        for frame in (frame_and_design(form)[0] for form in FORMS)
    )
    for other in others:
        assert_same(other, first, 1e-12)


@pytest.mark.parametrize("form", ["large", "texts"])
def test_what_is_unknown_or_missing(form: str) -> None:
    frame, _ = frame_and_design(form)
    frame["age"] = frame["age"].fillna(40.0)
    model = Linear.fit(dataset_of(frame), OPTIONS)
    of = FORMS[form]
    later = pd.DataFrame(
        {
            "user": of([77, 0]),
            "age": [np.nan, np.nan],
            "tags": pd.Series([of([]).to_numpy(), of([3, 99]).to_numpy()]),
        }
    )
    found = model.predict(later)
    slopes, intercepts = model.coefficients["stars"]
    half_a_list = slopes[0] + slopes[USERS + 2 + 3] / 2
    expected = intercepts[0] + np.array([0, half_a_list[0]])
    np.testing.assert_allclose(found["stars"], expected)
    np.testing.assert_allclose(
        logit(found["like"][0]), model.coefficients["like"][1][0]
    )
    assert np.isfinite(found["kind"]).all()


def test_columns_of_each_kind_of_feature() -> None:
    features = {
        "age": {"type": "number", "transform": "log1p"},
        "size": {"type": "bucket", "borders": [1.0, 2.0]},
        "tags": {"type": "ids", "weighted": True, "pooling": "sum"},
        "past": {"type": "sequence", "length": 2},
        "place": {"type": "vector", "size": 2},
    }
    lists = [["b:3", "a:-1"], [], ["b:0"]]
    past = [[7, 8, 8], [8, 7], []]
    frame = pd.DataFrame(
        {
            "age": np.expm1([1.0, 3.0, np.nan]),
            "size": [0.0, 5.0, np.nan],
            "tags": pd.Series([np.array(one, object) for one in lists]),
            "past": pd.Series([np.array(one, "int64") for one in past]),
            "place": [*np.arange(6.0).reshape(3, 2)],
            "like": [1.0, 0.0, 1.0],
        }
    )
    dataset = dataset_of(frame, {"like": "binary"}, features, None)
    found = design(TreeColumns.fit(dataset).features, frame).toarray()
    expected: Any = [
        [-1, 0, 1, 0, 0, -0.25, 0.75, 0, 1, 0, 1],
        [1, 0, 0, 0, 1, 0, 0, 0.5, 0.5, 2, 3],
        [0, 1, 0, 0, 0, 0, 0, 0, 0, 4, 5],
    ]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_weight_is_how_often_a_row_counts() -> None:
    frame, _ = frame_and_design("texts")
    features = {"user": "id", "tags": "ids"}
    often = frame.loc[frame.index.repeat(frame["weight"].astype(int))]
    often = often.reset_index(drop=True)
    weighted = Linear.fit(dataset_of(frame, TASKS, features), OPTIONS)
    repeated = Linear.fit(dataset_of(often, TASKS, features, None), OPTIONS)
    assert_same(repeated.predict(frame), weighted.predict(frame))


def test_a_task_after_another_is_that_both_happen() -> None:
    frame, _ = frame_and_design("large")
    frame["buy"] = frame["like"].where(frame["kind"] == 1, 0.0)
    frame["both"] = frame["buy"]
    frame.loc[frame["like"] == 0, "buy"] = 1.0
    tasks = {
        "like": "binary",
        "buy": {"type": "binary", "after": "like"},
        "both": "binary",
    }
    found = Linear.fit(dataset_of(frame, tasks), OPTIONS).predict(frame)
    np.testing.assert_allclose(found["buy"], found["both"], atol=1e-9)


@pytest.mark.parametrize("form", ["large", "texts"])
def test_what_was_written_predicts_the_same(form: str, tmp_path: Path) -> None:
    frame, _ = frame_and_design(form)
    dataset = dataset_of(frame)
    model = Linear.fit(dataset, OPTIONS)
    model.write(tmp_path)
    again = Linear.read(tmp_path, dataset)
    assert_same(again.predict(frame), model.predict(frame), 0)


def test_classes_without_a_row_and_labels_all_alike() -> None:
    frame, dense = frame_and_design("large")
    frame["like"], frame["stars"], frame["weight"] = 1.0, 2.5, 1.0
    frame.loc[0, ["like", "stars", "weight"]] = 0.0  # It does not count.
    frame["kind"] = np.where(frame["kind"] > 0, 3.0, 1.0)
    counts = {"kind": 5}
    few = dataset_of(frame, num_classes=counts)
    found = Linear.fit(few, OPTIONS).predict(frame)
    two = LogisticRegression(C=1 / L2, tol=1e-10)
    two.fit(dense[1:], frame["kind"][1:])
    classes = np.zeros((ROWS, 5))
    classes[:, [1, 3]] = two.predict_proba(dense)
    expected = {
        "like": np.full(ROWS, 0.999),
        "stars": np.full(ROWS, 2.5),
        "kind": classes,
    }
    assert_same(found, expected)
    frame["kind"] = 3.0
    alone = dataset_of(frame, num_classes=counts)
    shares = np.array([0.001, 0.001, 0.001, 0.999, 0.001])
    expected["kind"] = np.tile(shares / shares.sum(), (ROWS, 1))
    assert_same(Linear.fit(alone, OPTIONS).predict(frame), expected)


def test_no_id_to_see_and_no_label() -> None:
    frame, _ = frame_and_design("texts")
    frame["user"], frame["stars"] = None, np.nan
    shown = dataset_of(frame, TASKS, {"user": "id"})
    found = Linear.fit(shown, OPTIONS).predict(frame)
    labelled = frame[frame["like"].notna()]
    mean = np.average(labelled["like"], weights=labelled["weight"])
    np.testing.assert_allclose(found["like"], mean)
    assert (found["stars"] == 0).all()
    np.testing.assert_allclose(found["kind"].sum(axis=1), 1)


def test_files_that_are_broken(tmp_path: Path) -> None:
    frame, _ = frame_and_design("large")
    dataset = dataset_of(frame)
    model = Linear.fit(dataset, OPTIONS)

    def check(message: str) -> None:
        with pytest.raises(FileError, match=message):
            Linear.read(tmp_path, dataset)
        model.write(tmp_path)

    model.write(tmp_path)
    np.save(tmp_path / "task_0_slopes.npy", np.zeros((3, 1)))
    check(r"task_0_slopes\.npy.*\(11, 1\).*\(3, 1\)")
    (tmp_path / "task_2_intercepts.npy").write_bytes(b"PK")
    check(r"task_2_intercepts\.npy: expected a NumPy array")
    fewer = pd.DataFrame({"id": ids(range(3), False)})
    fewer.to_parquet(tmp_path / "feature_0_ids.parquet")
    check(r"'user': expected 5 different ids\. Received: 3")
    file = tmp_path / "features.json"
    states = json.loads(file.read_text())
    for age in (None, {"mean": 0.0}, {**states["age"], "mean": "high"}):
        broken = {**states, "age": age} if age else {"user": states["user"]}
        file.write_text(json.dumps(broken))
        check(r"features\.json: expected what was fitted of feature")
