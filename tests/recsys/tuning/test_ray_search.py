import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import pytest

import recsys
from recsys.processes.training_processes import TrainingProcesses
from recsys.tuning.oracles import create_oracle
from recsys.tuning.parse_space import parse_space
from recsys.tuning.ray_search import OracleSearcher
from recsys.tuning.ray_search import Searcher
from recsys.tuning.ray_search import search_on_ray
from recsys.tuning.ray_search import share
from recsys.tuning.sweep import Sweep
from recsys.tuning.trial_runner import TrialRunner
from tests.recsys.api.sweeps import use_fake
from tests.recsys.processes.commands_here import PROCESS
from tests.recsys.processes.commands_here import CommandsHere

pytestmark = pytest.mark.once("torch")

RATES = {"learning_rate": {"min": 1e-4, "max": 1e-2, "sampling": "log"}}


@pytest.fixture
def runner(tmp_path: Path) -> TrialRunner:
    space = parse_space(RATES, {"data": "synthetic"})
    return TrialRunner(Sweep(tmp_path / "sweep"), space, TrainingProcesses())


def searcher(runner: TrialRunner, tuner: str = "random") -> OracleSearcher:
    runner.sweep.folder.mkdir()
    oracle = create_oracle(tuner, runner.space, 3, epochs=9, seed=0)
    oracle._set_project_dir(str(runner.sweep.folder), "tuner")
    return OracleSearcher(oracle, runner)


def test_trials_are_those_of_the_oracle(
    runner: TrialRunner, tmp_path: Path
) -> None:
    oracle = create_oracle("random", runner.space, 3, epochs=9, seed=0)
    oracle._set_project_dir(str(tmp_path), "tuner")
    drawn = [
        {"trial": trial.trial_id, "drawn": trial.hyperparameters.values}
        for trial in map(oracle.create_trial, "abc")
    ]
    searched = searcher(runner)
    assert [searched.suggest(name) for name in "xyz"] == drawn
    assert searched.suggest("w") == Searcher.FINISHED


def test_lost_process_is_a_failed_trial(runner: TrialRunner) -> None:
    searched = searcher(runner)
    drawn = searched.suggest("x")["drawn"]
    searched.on_trial_complete("x", error=True)
    (record,) = runner.sweep.log.read()
    assert (record["trial"], record["status"]) == ("0", "failed")
    assert record["hyperparameters"] == drawn
    assert record["config"]["learning_rate"] == drawn["learning_rate"]
    assert record["error"] == "Ray has lost its process 4 times"
    assert searched._oracle.losses == [None]


def test_trial_that_cannot_be_recorded_ends_the_search(
    runner: TrialRunner,
) -> None:
    searched = searcher(runner)
    searched.suggest("x")
    with pytest.raises(recsys.RunError, match="trial 0: No space left"):
        searched.on_trial_complete("x", {"error": "No space left on device"})
    assert not runner.sweep.log.read()


@pytest.mark.parametrize(
    ("amounts", "workers", "expected"),
    [
        ([16], 1, 16),
        ([16], 3, 5),
        ([8, 8], 3, 4),
        ([8, 4, 0], 2, 4),
        ([2], 5, 1 / 3),
        ([0, 0], 2, 0),
    ],
)
def test_share_of_the_machines(
    amounts: list[int], workers: int, expected: float
) -> None:
    assert share(amounts, workers) == expected


def test_client_address_is_refused(
    runner: TrialRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    with pytest.raises(ValueError, match="RAY_ADDRESS must be"):
        search_on_ray(searcher(runner)._oracle, runner, workers=1)


@pytest.mark.slow
@pytest.mark.skipif(
    keras.backend.backend() != "torch",
    reason="starts processes of its own; once is enough",
)
@pytest.mark.usefixtures("warm_python")  # Those of Ray are not.
def test_sweep_goes_on_with_ray_and_back(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real trainings, one of them with an absurd learning rate."""
    space = {"learning_rate": [0.01, 0.02, 4e9]}
    fields = settings(tmp_path / "sweep", epochs=1, seed=1)
    del fields["learning_rate"]
    interrupt = """
    if out.name == "1":
        (out / "config.json").unlink()
        sys.exit(130)
    """
    with monkeypatch.context() as patch:
        use_fake(patch, tmp_path, interrupt)
        with pytest.raises(KeyboardInterrupt):
            recsys.tune(fields, 3, space=space)
    code = "import json, sys, recsys; recsys.tune(**json.loads(sys.argv[1]))"
    arguments = {"trials": 3, "space": space, "resume": True}
    on_ray = {"fields": fields, **arguments, "workers": 2, "engine": "ray"}
    process = subprocess.run(
        [sys.executable, "-c", code, json.dumps(on_ray)],
        env={**os.environ, "RAY_ADDRESS": "local"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    printed = process.stdout.splitlines()
    assert [line.split()[0] for line in printed] == ["trial", "trial"]
    monkeypatch.setattr(PROCESS, CommandsHere)
    records = recsys.tune(fields, **arguments)
    assert {record["trial"] for record in records} == set("012")
    assert len({tuple(record) for record in records}) == 1
    by_rate = {r["hyperparameters"]["learning_rate"]: r for r in records}
    assert by_rate[0.02]["trial"] != "0"
    assert by_rate[0.02]["config"]["backend"] == keras.backend.backend()
    assert by_rate[0.02]["validation"]["tasks"]["watch"]["auc"] > 0
    assert by_rate[4e9]["trial"] != "0"
    assert "must stay finite" in by_rate[4e9]["error"]
    state = tmp_path / "sweep" / "tuner"
    assert [path.name for path in state.iterdir()] == ["oracle.json"]
