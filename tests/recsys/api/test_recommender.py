"""A table in, recommendations out."""

import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

import recsys
from recsys import DataError
from recsys import Recommender
from recsys import RunError
from recsys.cli import run as command
from recsys.data import write_table
from recsys.files.json_files import read_json
from tests.recsys.retrieval.id_kinds import IdKinds

pytestmark = [pytest.mark.slow, pytest.mark.once("torch")]

KINDS = (IdKinds(texts=True), IdKinds(texts=False))
OPTIONS = {
    "epochs": 1,
    "gate": "top-k",
    "num_experts": 4,
    "expert_units": [8],
    "head_units": [4],
    "embedding_dim": 8,
}


def log_of(ids: IdKinds, count: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 20, count), rng.integers(0, 30, count)
    return pd.DataFrame(
        {
            "user_id": [ids.user(n) for n in users],
            "movieId": [ids.item(n) for n in items],
            "age": 18.0 + users,
            "click": (users % 2 == items % 2).astype(int),
            "rating": 1.0 + items % 5,
            "time": range(count),
        },
        index=range(100, 100 + count),
    )


@pytest.fixture(scope="module", params=KINDS, ids=lambda ids: ids.name)
def ids(request: pytest.FixtureRequest) -> IdKinds:
    kinds: IdKinds = request.param
    return kinds


@pytest.fixture(scope="module")
def log(ids: IdKinds) -> pd.DataFrame:
    return log_of(ids)


@pytest.fixture(scope="module")
def fitted(log: pd.DataFrame) -> Recommender:
    return Recommender(options=OPTIONS, verbose=False).fit(log)


def test_columns_are_shown(fitted: Recommender) -> None:
    kinds = fitted.columns_.set_index("column")["kind"]
    assert kinds.to_dict() == {
        "user_id": "id",
        "movieId": "id",
        "age": "number",
        "click": "binary",
        "rating": "regression",
        "time": "",
    }
    assert fitted.schema.time == "time"


def test_predictions_are_those_of_the_run(
    fitted: Recommender, log: pd.DataFrame
) -> None:
    rows = log.head(9)
    predictions = fitted.predict(rows)
    assert isinstance(predictions, pd.DataFrame)
    assert list(predictions) == ["click", "rating"]
    assert list(predictions.index) == list(rows.index)
    pd.testing.assert_frame_equal(predictions, fitted.model.predict(rows))


def test_what_is_seen_is_not_recommended(
    fitted: Recommender, log: pd.DataFrame, ids: IdKinds
) -> None:
    user = ids.user(3)
    items = list(fitted.recommend(user, 5)["movieId"])
    assert len(set(items)) == 5
    assert set(items) <= set(log["movieId"])
    # The latest fifth of the rows are no training rows.
    train = log.head(int(len(log) * 0.8))
    liked = train[(train["user_id"] == user) & (train["click"] == 1)]
    assert not set(items) & set(liked["movieId"])
    all_items = fitted.recommend(user, 30, exclude_seen=False)
    assert set(liked["movieId"]) <= set(all_items["movieId"])


def test_a_table_is_measured_as_the_test_split_is(
    fitted: Recommender, log: pd.DataFrame
) -> None:
    tasks = fitted.metrics_["test"]["tasks"]
    assert fitted.evaluate()["tasks"] == tasks
    last = fitted.evaluate(log.tail(len(log) // 10))["tasks"]
    for task, metrics in tasks.items():
        assert last[task]["loss"] == pytest.approx(metrics["loss"], rel=1e-6)


def test_what_is_saved_is_loaded(
    fitted: Recommender, log: pd.DataFrame, ids: IdKinds, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "kept")
    loaded = Recommender.load(tmp_path / "kept")
    pd.testing.assert_frame_equal(loaded.predict(log), fitted.predict(log))
    pd.testing.assert_frame_equal(
        loaded.recommend(ids.user(0), 3), fitted.recommend(ids.user(0), 3)
    )
    assert loaded.get_params() == fitted.get_params()
    pd.testing.assert_frame_equal(loaded.columns_, fitted.columns_)
    assert loaded.metrics_ == fitted.metrics_
    with pytest.raises(FileExistsError):
        fitted.save(tmp_path / "kept")


def test_features_have_an_importance(fitted: Recommender) -> None:
    table = fitted.explain()
    assert set(table.index) == {"user_id", "movieId", "age"}
    assert list(table) == ["mean", "deviation"]
    assert table["mean"].is_monotonic_decreasing


def test_a_fitted_one_can_be_fitted_again(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """And nothing is printed where it is not verbose, as it is by default."""
    log = log_of(KINDS[1])
    options = {**OPTIONS, "retrieval": False}
    recommender = Recommender(["click"], options=options, verbose=False)
    first = recommender.fit(log).predict(log)
    assert capfd.readouterr().out == ""
    recommender.set_params(verbose=Recommender().verbose)
    again = recommender.fit(log.assign(click=1 - log["click"])).predict(log)
    printed = capfd.readouterr().out
    assert "movieId" in printed
    assert "Training" in printed
    assert isinstance(first, pd.Series)
    assert not np.allclose(first, again)


@pytest.mark.parametrize(
    ("task", "labels"),
    [
        ("click", lambda log: log["click"]),
        ("grade", lambda log: log["rating"] / 7),
        ("shop", lambda log: log["movieId"].map(lambda x: f"s{hash(x) % 3}")),
    ],
)
def test_it_is_cross_validated(task: str, labels: Any) -> None:
    log = log_of(KINDS[1])
    options = {**OPTIONS, "retrieval": False}
    recommender = Recommender(task, options=options, verbose=False)
    features = log[["user_id", "movieId", "age"]]
    scores = cross_val_score(recommender, features, labels(log), cv=2)
    assert np.isfinite(scores).all()
    low, high = (-10, 0) if task == "grade" else (0, 1)
    assert ((low < scores) & (scores <= high)).all()
    with pytest.raises(NotFittedError):
        recommender.predict(features)  # Its clones were fitted.


def test_a_clone_has_its_parameters() -> None:
    recommender = Recommender(["click"], kinds={"age": "id"}, device="cpu")
    assert clone(recommender).get_params() == recommender.get_params()


def test_a_folder_keeps_what_commands_read(tmp_path: Path) -> None:
    log = log_of(KINDS[1])
    folder = tmp_path / "kept"
    arguments: dict[str, Any] = {
        "options": OPTIONS,
        "verbose": False,
        "folder": folder,
        "device": "cpu",
    }
    recommender = Recommender(["click"], **arguments).fit(log)
    predicted = recsys.load_model(folder / "run").predict(log)["click"]
    pd.testing.assert_series_equal(recommender.predict(log), predicted)
    with pytest.raises(RunError, match="`folder` must be new or empty"):
        Recommender(["click"], **arguments).fit(log)


@pytest.mark.parametrize(
    ("arguments", "rows", "error", "message"),
    [
        ({}, [1, 2], TypeError, r"`rows` must be a pandas.DataFrame.*list"),
        ({"tasks": ["buy"]}, None, DataError, "a column 'buy'"),
        ({"options": {"epoch": 1}}, None, ValueError, "epoch"),
        ({"test": 1.5}, None, ValueError, "test"),
    ],
)
def test_what_is_wrong_is_named(
    arguments: dict[str, Any],
    rows: Any,
    error: type[Exception],
    message: str,
) -> None:
    rows = log_of(KINDS[0], 60) if rows is None else rows
    with pytest.raises(error, match=message):
        Recommender(**arguments, verbose=False).fit(rows)


def test_labels_are_of_one_task() -> None:
    log = log_of(KINDS[1])
    with pytest.raises(ValueError, match="`labels` must be left out"):
        Recommender(["click", "rating"]).fit(log, log["click"])


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="once is enough")
def test_quickstart_recommends(
    log: pd.DataFrame,
    ids: IdKinds,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    named = log.rename(columns={"rating": "Rating (1-5)"})
    write_table(named, tmp_path / "log.csv")
    options = ["--epochs", "1", "--kind", "age=bucket"]
    options += ["--task", "click", "--task", "Rating (1-5)"]
    assert command(["quickstart", "log.csv", *options]) == 0
    printed = capfd.readouterr().out
    assert "who has most rows" in printed
    assert "The column 'Rating (1-5)' is the task 'Rating_1-5'." in printed
    often = log["user_id"].mode()[0]
    assert f"For user_id {often}" in printed
    described = read_json(tmp_path / "quickstart" / "data" / "dataset.json")
    assert described["features"]["movieId"] == "id"
    assert described["features"]["age"] == "bucket"
    assert described["user"] == "user_id"
    assert command(["quickstart", "log.csv"]) == 1
    assert "must be new or empty" in capfd.readouterr().err
    assert command(["quickstart", "none.csv", "--out", "other"]) == 1
    assert "none.csv" in capfd.readouterr().err
    assert command(["quickstart", "log.csv", "--task", "x", "--out", "y"]) == 1
    assert "a column 'x'" in capfd.readouterr().err
    wrong = ["quickstart", "log.csv", "--kind", "age=nmber", "--out", "z"]
    assert command(wrong) == 1
    assert "did you mean 'number'?" in capfd.readouterr().err


def test_quickstart_needs_no_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "first")
    assert command(["quickstart", "--out", out, "--epochs", "1"]) == 0
    assert "For user " in capfd.readouterr().out


def test_the_page_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[3] / "docs" / "dataframe.md"
    (block,) = re.findall(
        r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
    )
    held: dict[str, Any] = {}
    exec(block, held)
    assert "movieId" in capfd.readouterr().out
    assert len(Recommender.load("kept").recommend("u007", 5)) == 5
    assert held["recommender"].evaluate()["tasks"]["rating"]["rmse"] < 1.2
