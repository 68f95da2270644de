import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import recsys
from recsys import RunError
from recsys import cli
from tests.recsys import fake_trainer
from tests.recsys.reporting.run_folders import write_sweep

pytestmark = pytest.mark.once("torch")

Settings = Callable[..., dict[str, Any]]


@pytest.fixture
def sweep(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A sweep of four trials, one of which has failed."""
    fail = "if fields['learning_rate'] == 0.4: sys.exit(1)"
    program = fake_trainer.install(tmp_path, fail)
    monkeypatch.setattr("sys.executable", str(program))
    fields = settings(tmp_path / "sweep", seed=5)
    fields.pop("learning_rate")
    space = {"learning_rate": [0.1, 0.2, 0.3, 0.4]}
    recsys.tune(fields, 50, space=space)
    (tmp_path / "calls.txt").unlink()
    return tmp_path / "sweep"


def change_log(sweep: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the line of each trial of a sweep."""
    log = sweep / "trials.jsonl"
    records = list(map(json.loads, log.read_text().splitlines()))
    for record in records:
        change(record)
    log.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_best_trials_are_trained_with_new_seeds(
    sweep: Path, tmp_path: Path
) -> None:
    results = recsys.rerun(sweep, tmp_path / "out", seeds=3, top=2)
    by_rate = {
        record["hyperparameters"]["learning_rate"]: record["trial"]
        for record in map(
            json.loads, (sweep / "trials.jsonl").read_text().splitlines()
        )
    }
    # The lowest learning rate is the best one there.
    names = [f"trial-{by_rate[rate]}" for rate in (0.1, 0.2)]
    assert results["model"].tolist() == names * 3
    assert results["seed"].tolist() == [6, 6, 7, 7, 8, 8]
    written = pd.read_csv(tmp_path / "out" / "results.csv")
    assert written["loss"].tolist() == results["loss"].tolist()
    table = (tmp_path / "out" / "table.md").read_text()
    assert f"| {names[0]} | 3 |" in table
    config = tmp_path / "out" / names[1] / "seed-7.json"
    asked = json.loads(config.read_text())
    assert (asked["learning_rate"], asked["seed"]) == (0.2, 7)
    assert asked["embedding_dim"] == 4


def test_goes_on_where_it_was(sweep: Path, tmp_path: Path) -> None:
    recsys.rerun(sweep, tmp_path / "out", seeds=1)
    recsys.rerun(sweep, tmp_path / "out", seeds=2)
    assert fake_trainer.calls(tmp_path) == ["seed-6", "seed-7"]


def test_trials_that_stayed_dense_are_left_out(
    sweep: Path, tmp_path: Path
) -> None:
    """The best two have three experts per example, with a k of 2."""

    def make_dense(record: dict[str, Any]) -> None:
        record["config"]["gate"] = "comet"
        if record["hyperparameters"]["learning_rate"] < 0.3:
            record["validation"]["experts_per_example"] = 3.0

    change_log(sweep, make_dense)
    with pytest.warns(UserWarning, match="trials: 2 of 3 of comet"):
        results = recsys.rerun(sweep, tmp_path / "sparse", seeds=1)
    asked = tmp_path / "sparse" / results["model"][0] / "seed-6.json"
    assert json.loads(asked.read_text())["learning_rate"] == 0.3
    results = recsys.rerun(sweep, tmp_path / "any", 1, sparse_only=False)
    asked = tmp_path / "any" / results["model"][0] / "seed-6.json"
    assert json.loads(asked.read_text())["learning_rate"] == 0.1


def test_the_best_may_be_those_of_the_highest_accuracy(
    sweep: Path, tmp_path: Path
) -> None:
    def make_accurate(record: dict[str, Any]) -> None:
        if record["validation"]:
            # The lowest loss goes with the lowest accuracy.
            rate = record["hyperparameters"]["learning_rate"]
            record["validation"]["accuracy"] = rate

    change_log(sweep, make_accurate)
    results = recsys.rerun(sweep, tmp_path / "out", 1, by="accuracy")
    asked = tmp_path / "out" / results["model"][0] / "seed-6.json"
    assert json.loads(asked.read_text())["learning_rate"] == 0.3


def test_without_accuracies_none_is_the_best(
    sweep: Path, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match="all have an accuracy"):
        recsys.rerun(sweep, tmp_path / "out", 1, by="accuracy")


def test_without_a_sparse_trial_the_rule_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sweep = write_sweep(tmp_path / "sweep", "comet", [(1, 1)], experts=[3])
    plan = {"tuner": "random", "trials": 1, "fields": {}, "space": {}}
    (sweep / "sweep.json").write_text(json.dumps(plan))
    out = str(tmp_path / "out")
    words = ["--sweep", str(sweep), "--out", out, "--seeds", "1"]
    assert cli.run(["rerun", *words]) == 1
    error = capfd.readouterr().err
    assert "expected a sweep with a completed trial that counts" in error
    assert "1 of 1 of comet. --any-sparsity, in Python" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seeds": 0}, "`seeds` must be at least 1"),
        ({"seeds": 1, "top": 0}, "`top` must be at least 1"),
        ({"seeds": 1, "jobs": 0}, "`jobs` must be at least 1"),
        ({"seeds": 1, "by": "auc"}, "`by` must be one of loss, accuracy"),
    ],
)
def test_wrong_arguments(
    arguments: dict[str, Any], message: str, sweep: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        recsys.rerun(sweep, tmp_path / "out", **arguments)


def test_nothing_to_train(sweep: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="expected the folder of a sweep"):
        recsys.rerun(tmp_path, tmp_path / "out", seeds=1)
    (sweep / "trials.jsonl").unlink()
    with pytest.raises(RunError, match="expected a sweep with a completed"):
        recsys.rerun(sweep, tmp_path / "out", seeds=1)
