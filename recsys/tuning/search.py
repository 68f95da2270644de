from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import as_completed
from typing import Any

from keras_tuner.engine.trial import TrialStatus

from recsys.tuning.oracles import OBJECTIVE
from recsys.tuning.trial_runner import TrialRunner

# Seconds until an oracle that waits for other trials is asked again.
_PAUSE = 1.0


def search(oracle: Any, runner: TrialRunner, workers: int, name: str) -> None:
    """Runs the trials that an oracle draws until it draws no more.

    KerasTuner's own loop trains in the process that it runs in, takes one
    trial at a time and asks an idle oracle without a pause.

    Args:
        oracle: KerasTuner's oracle, or its proxy in another process.
        runner: Runs a trial.
        workers: How many trials run at a time.
        name: What the oracle knows this process by.

    Raises:
        KeyboardInterrupt: A training was interrupted.
    """
    with ThreadPoolExecutor(workers) as pool:
        futures = [
            pool.submit(_work, oracle, runner, f"{name}-{number}")
            for number in range(workers)
        ]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            runner.processes.stop()
            raise


def _work(oracle: Any, runner: TrialRunner, worker: str) -> None:
    while True:
        trial = oracle.create_trial(worker)
        if trial.status == TrialStatus.STOPPED:
            return
        if trial.status == TrialStatus.IDLE:
            if runner.processes.stopped.wait(_PAUSE):
                return
            continue
        record = runner.run(trial.trial_id, trial.hyperparameters.values)
        if record["status"] == "completed":
            loss = record["validation"]["loss"]
            oracle.update_trial(trial.trial_id, {OBJECTIVE.name: loss})
            trial.status = TrialStatus.COMPLETED
        else:
            trial.status = TrialStatus.FAILED
            trial.message = record["error"]
        oracle.end_trial(trial)
