"""Trials on a Ray cluster: KerasTuner's oracle draws them, Ray Tune runs them.

The oracle is the one of a sweep without Ray, and so are the trials, their
folders and the log: either engine goes on with a sweep of the other.
"""

import math
import os
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from shutil import rmtree

import keras
from keras_tuner.engine.trial import Trial
from keras_tuner.engine.trial import TrialStatus

from recsys.errors import RunError
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.processes.training_processes import TrainingProcesses
from recsys.tuning.oracles import OBJECTIVE
from recsys.tuning.oracles import ResumableOracle
from recsys.tuning.search import end_trial
from recsys.tuning.space import Space
from recsys.tuning.sweep import Sweep
from recsys.tuning.trial_runner import TrialRunner

# Restarts of a trial whose machine or process was lost.
_RETRIES = 3

# Changes of Ray's defaults, read when it is imported.
_SETTINGS = {
    "RAY_AIR_NEW_OUTPUT": "0",  # Else it prints tables, at any verbosity.
    "RAY_USAGE_STATS_ENABLED": "0",  # No report of its use.
    "RAY_worker_niceness": "0",  # Else its workers yield to all others.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # Else it writes its own logs.
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Else Ctrl-C ends the sweep.
}
for _name, _value in _SETTINGS.items():
    os.environ.setdefault(_name, _value)

import ray  # noqa: E402
from ray import tune  # noqa: E402
from ray.tune.search import Searcher  # noqa: E402


def search_on_ray(
    oracle: ResumableOracle, runner: TrialRunner, workers: int
) -> None:
    """Runs the trials that an oracle draws, on a Ray cluster.

    The cluster is the one that the environment variable RAY_ADDRESS names, or
    that runs on this machine, or else one of this machine alone, for as long
    as the search lasts. Its machines see the data and the sweep under the same
    paths. A Ray that this process has started itself is used as it is.

    Args:
        oracle: KerasTuner's oracle.
        runner: Runs a trial; in the processes of Ray one like it does.
        workers: How many trials run at a time. Each gets the most processors,
            and accelerators, with which as many fit into the cluster.

    Raises:
        KeyboardInterrupt: The search was interrupted.
        RunError: There is no such cluster, or a trial could not be recorded.
        ValueError: RAY_ADDRESS has a form that Ray Tune does not work with.
    """
    with _cluster():
        resources = _resources(workers)
        state = runner.sweep.tuner / "ray"
        try:
            tune.run(
                tune.with_parameters(
                    _run_trial,
                    sweep=runner.sweep,
                    space=runner.space,
                    threads=max(1, int(resources["cpu"])),
                ),
                search_alg=OracleSearcher(oracle, runner),
                num_samples=-1,  # Until the oracle draws no more.
                max_concurrent_trials=workers,
                resources_per_trial=resources,
                max_failures=_RETRIES,
                raise_on_failed_trial=False,
                storage_path=str(state.parent),
                name=state.name,
                trial_name_creator=_name_of,
                trial_dirname_creator=_name_of,
                verbose=0,
            )
        finally:
            # What Ray would go on with: the oracle's state does that.
            rmtree(state, ignore_errors=True)


class OracleSearcher(Searcher):
    """Ray Tune's view of an oracle.

    Ray has names of its own for the trials, which nobody else gets to see.

    Args:
        oracle: KerasTuner's oracle.
        runner: Knows the log of the trials.
    """

    def __init__(self, oracle: ResumableOracle, runner: TrialRunner) -> None:
        super().__init__()
        self._oracle = oracle
        self._runner = runner
        self._running: dict[str, Trial] = {}

    def suggest(self, trial_id: str) -> JsonObject | str | None:
        trial = self._oracle.create_trial(trial_id)
        if trial.status == TrialStatus.STOPPED:
            return Searcher.FINISHED
        if trial.status == TrialStatus.IDLE:
            return None
        self._running[trial_id] = trial
        return {"trial": trial.trial_id, "drawn": trial.hyperparameters.values}

    def on_trial_complete(
        self,
        trial_id: str,
        result: JsonMapping | None = None,
        error: bool = False,
    ) -> None:
        trial = self._running.pop(trial_id)
        if result and result.get("error"):
            raise RunError(f"trial {trial.trial_id}: {result['error']}")
        record = self._runner.sweep.log.find(trial.trial_id)
        if record is None:
            record = self._runner.give_up(
                trial.trial_id,
                trial.hyperparameters.values,
                f"Ray has lost its process {1 + _RETRIES} times",
            )
        end_trial(self._oracle, trial, record)

    def save(self, checkpoint_path: str) -> None:
        """Leaves it to the oracle, which saves itself."""

    def restore(self, checkpoint_path: str) -> None:
        raise NotImplementedError


def _run_trial(
    config: JsonMapping, sweep: Sweep, space: Space, threads: int
) -> JsonObject:
    """Runs a trial in a process of Ray.

    Returns:
        How it ended and its loss, if it has one; or "error", if it could not
        be recorded. What is raised here, Ray takes for a reason to try again.
    """
    with TrainingProcesses(threads=threads) as processes:
        runner = TrialRunner(sweep, space, processes)
        try:
            record = runner.run(config["trial"], config["drawn"])
        except (Exception, KeyboardInterrupt) as error:
            return {"error": f"{error or type(error).__name__}"}
    loss = (record["validation"] or {}).get("loss")
    return {"status": record["status"], OBJECTIVE.name: loss}


def _name_of(trial: "tune.experiment.Trial") -> str:
    return str(trial.config["trial"])


@contextmanager
def _cluster() -> Iterator[None]:
    """Connects to a cluster, unless this process is in one already."""
    if ray.is_initialized():
        yield
        return
    address = os.environ.get("RAY_ADDRESS", "")
    if "://" in address:
        raise ValueError(
            "RAY_ADDRESS must be 'local', 'auto' or HOST:PORT, as Ray Tune has "
            "to run on a machine of the cluster. Received: "
            f"RAY_ADDRESS={address}"
        )
    variables = {
        "KERAS_BACKEND": keras.backend.backend(),
        "RAY_CHDIR_TO_TRIAL_DIR": "0",
    }
    try:
        _connect(address, variables)
        yield
    finally:
        ray.shutdown()


def _connect(address: str, variables: Mapping[str, str]) -> None:
    try:
        ray.init(
            runtime_env={"env_vars": dict(variables)},
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
        )
    except ConnectionError as error:
        raise RunError(
            f"RAY_ADDRESS={address}: expected the address of a Ray cluster. "
            f"Received: {error}"
        ) from None


def _resources(workers: int) -> dict[str, float]:
    """Resources of each trial, by Ray's name."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cpus = [int(machine.get("CPU", 0)) for machine in machines]
    gpus = [int(machine.get("GPU", 0)) for machine in machines]
    return {"cpu": share(cpus, workers), "gpu": share(gpus, workers)}


def share(amounts: Sequence[int], workers: int) -> float:
    """Returns the most that each worker can get of what machines have.

    Args:
        amounts: How many of a kind each machine has.
        workers: How many get the same share, each of one machine.

    Returns:
        An integer where there are as many as workers, a fraction of one
        otherwise; 0 where there are none.

    Example:
    >>> share([8, 8], 3), share([8, 4], 3), share([2], 4), share([], 2)
    (4, 4, 0.5, 0)
    """
    for whole in range(max(amounts, default=0), 0, -1):
        if sum(amount // whole for amount in amounts) >= workers:
            return whole
    total = sum(amounts)
    return total and 1 / math.ceil(workers / total)
