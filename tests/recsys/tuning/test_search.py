import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from keras_tuner.engine.base_tuner import BaseTuner
from keras_tuner.engine.trial import Trial

from recsys.tuning.oracles import ResumableOracle
from recsys.tuning.oracles import create_oracle
from recsys.tuning.parse_space import parse_space
from recsys.tuning.search import search

pytestmark = pytest.mark.once("torch")

SPACE = parse_space({"learning_rate": {"min": 0.1, "max": 0.9}}, {})


class Runner:
    """Ends each trial with its learning rate for a loss."""

    def __init__(self) -> None:
        stopped = threading.Event()
        self.processes = SimpleNamespace(stopped=stopped, stop=stopped.set)
        self.ended: list[str] = []

    def run(self, trial: str, drawn: Mapping[str, Any]) -> dict[str, Any]:
        self.ended.append(trial)
        loss = drawn["learning_rate"]
        return {"status": "completed", "validation": {"loss": loss}}


def new_oracle(folder: Path, tuner: str, trials: int) -> ResumableOracle:
    oracle = create_oracle(tuner, SPACE, trials, epochs=3, seed=0)
    BaseTuner(oracle, directory=str(folder), project_name="tuner")
    return oracle


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("tuner", ["random", "hyperband"])
def test_all_trials_are_run_once(
    tuner: str, workers: int, tmp_path: Path
) -> None:
    oracle = new_oracle(tmp_path, tuner, trials=8)
    runner: Any = Runner()
    search(oracle, runner, workers, "worker")
    assert sorted(runner.ended) == list("01234567")
    for trial in oracle.trials.values():
        drawn = trial.hyperparameters.values["learning_rate"]
        assert (trial.status, trial.score) == ("COMPLETED", drawn)


def test_trial_runs_until_the_oracle_knows_its_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else another thread's new trial is drawn from one without a score."""
    status = []
    end_trial = ResumableOracle.end_trial

    def spied(oracle: ResumableOracle, trial: Trial) -> None:
        status.append(oracle.trials[trial.trial_id].status)
        end_trial(oracle, trial)

    monkeypatch.setattr(ResumableOracle, "end_trial", spied)
    runner: Any = Runner()
    search(new_oracle(tmp_path, "random", 3), runner, 1, "worker")
    assert status == ["RUNNING"] * 3


def test_error_of_the_oracle_ends_all_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a full disk: the others must not wait for the oracle's lock."""
    oracle = new_oracle(tmp_path, "random", trials=20)
    both_train = threading.Barrier(2, timeout=60)

    class WaitingRunner(Runner):
        def run(self, trial: str, drawn: Mapping[str, Any]) -> dict[str, Any]:
            if not self.ended:
                both_train.wait()
            return super().run(trial, drawn)

    def fail() -> None:
        raise OSError("No space left on device")

    end_trial = oracle.end_trial

    def end_trial_on_a_full_disk(trial: Trial) -> None:
        monkeypatch.setattr(oracle, "save", fail)
        end_trial(trial)

    monkeypatch.setattr(oracle, "end_trial", end_trial_on_a_full_disk)
    runner: Any = WaitingRunner()
    with pytest.raises(OSError, match="No space left"):
        search(oracle, runner, 2, "worker")
    assert runner.processes.stopped.is_set()
