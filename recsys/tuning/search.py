import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import as_completed
from contextlib import contextmanager
from typing import TYPE_CHECKING

from keras_tuner.engine.trial import Trial
from keras_tuner.engine.trial import TrialStatus

from recsys.files.json_files import JsonMapping
from recsys.tuning.oracles import OBJECTIVE
from recsys.tuning.trial_runner import TrialRunner

if TYPE_CHECKING:
    import keras_tuner

# Seconds until an oracle that waits for other trials is asked again.
_PAUSE = 1.0


def search(
    oracle: "keras_tuner.Oracle",
    runner: TrialRunner,
    workers: int,
    name: str = "tuner0",
) -> None:
    """Runs the trials that an oracle draws until it draws no more.

    KerasTuner's own loop trains in the process that it runs in, takes one
    trial at a time and asks an idle oracle without a pause.

    Args:
        oracle: KerasTuner's oracle, or its proxy in another process.
        runner: Runs a trial.
        workers: How many trials run at a time.
        name: What the oracle knows this process by. Defaults to what
            KerasTuner calls one that is alone.

    Raises:
        KeyboardInterrupt: A training was interrupted.
        OSError: The oracle could not save what it knows.
    """
    turns = _Turns()
    with ThreadPoolExecutor(workers) as pool:
        futures = [
            pool.submit(_work, oracle, turns, runner, f"{name}-{number}")
            for number in range(workers)
        ]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            runner.processes.stop()
            raise


class _OracleFailedError(Exception):
    """A call of another thread has failed; that one says why."""


class _Turns:
    """Lets one thread at a time call the oracle, and none after a failure.

    KerasTuner does not release its own lock when a call fails: who waits for
    it waits forever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed = False

    @contextmanager
    def take(self) -> Iterator[None]:
        with self._lock:
            if self._failed:
                raise _OracleFailedError
            try:
                yield
            except BaseException:
                self._failed = True
                raise


def _work(
    oracle: "keras_tuner.Oracle",
    turns: _Turns,
    runner: TrialRunner,
    worker: str,
) -> None:
    try:
        while _run_trial(oracle, turns, runner, worker):
            pass
    except _OracleFailedError:
        return


def _run_trial(
    oracle: "keras_tuner.Oracle",
    turns: _Turns,
    runner: TrialRunner,
    worker: str,
) -> bool:
    """Runs a trial if there is one now; returns whether to ask again."""
    with turns.take():
        trial = oracle.create_trial(worker)
    if trial.status == TrialStatus.STOPPED:
        return False
    if trial.status == TrialStatus.IDLE:
        return not runner.processes.stopped.wait(_PAUSE)
    record = runner.run(trial.trial_id, trial.hyperparameters.values)
    with turns.take():
        end_trial(oracle, trial, record)
    return True


def end_trial(
    oracle: "keras_tuner.Oracle", trial: Trial, record: JsonMapping
) -> None:
    """Tells an oracle how a trial has ended.

    Args:
        oracle: KerasTuner's oracle, or its proxy in another process.
        trial: What it has drawn.
        record: The trial's line in the log.
    """
    # Not the trial itself, which may be the oracle's own: Hyperband would
    # compare the score of a completed trial that has none yet.
    ended = Trial(trial.hyperparameters, trial.trial_id, TrialStatus.COMPLETED)
    if record["status"] == "completed":
        loss = record["validation"]["loss"]
        oracle.update_trial(trial.trial_id, {OBJECTIVE.name: loss})
    else:
        ended.status = TrialStatus.FAILED
        ended.message = record["error"]
    oracle.end_trial(ended)


_ID, _ADDRESS, _PORT = (
    "KERASTUNER_TUNER_ID",
    "KERASTUNER_ORACLE_IP",
    "KERASTUNER_ORACLE_PORT",
)


def role() -> str:
    """Returns what KerasTuner's environment variables make of this process.

    Returns:
        "alone" without them, "chief" (draws the trials of a sweep, and trains
        none), or "worker" (trains those that the chief draws).

    Raises:
        ValueError: Only some of them are set.
    """
    if _ADDRESS not in os.environ:
        return "alone"
    for name in (_ID, _PORT):
        if name not in os.environ:
            raise ValueError(
                f"the environment variable {name} must be set if {_ADDRESS} "
                f"is. Received: {_ADDRESS}={os.environ[_ADDRESS]}"
            )
    return "chief" if "chief" in os.environ[_ID] else "worker"
