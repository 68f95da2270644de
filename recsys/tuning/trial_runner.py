import time
from dataclasses import dataclass

from recsys.config.train_config import TrainConfig
from recsys.errors import RunError
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.processes.training_processes import TrainingProcesses
from recsys.runs.run import Run
from recsys.tuning.space import Space
from recsys.tuning.sweep import Sweep

# Hyperband's name for the number of epochs of a trial.
_EPOCHS = "tuner/epochs"


@dataclass(frozen=True)
class TrialRunner:
    """Trains the trials of a sweep and keeps a record of each.

    Args:
        sweep: The folder of the sweep.
        space: What the trials are drawn from.
        processes: What trains.
    """

    sweep: Sweep
    space: Space
    processes: TrainingProcesses

    def run(self, trial: str, drawn: JsonMapping) -> JsonObject:
        """Trains a trial, unless it is finished, and adds it to the log.

        Args:
            trial: Name of the trial.
            drawn: The values that KerasTuner has drawn for it.

        Returns:
            The trial's line in the log.

        Raises:
            KeyboardInterrupt: The training was interrupted.
        """
        record = self.sweep.log.find(trial)
        if record is None:
            record = self._train(trial, drawn)
            self.sweep.log.append(record)
        return record

    def give_up(self, trial: str, drawn: JsonMapping, error: str) -> JsonObject:
        """Adds a trial to the log that no process has finished.

        Args:
            trial: Name of the trial.
            drawn: The values that KerasTuner has drawn for it.
            error: Why.

        Returns:
            The trial's line in the log.
        """
        fields, values = self._fields(trial, drawn)
        record = _record(trial, fields, values, None, error)
        self.sweep.log.append(record)
        return record

    def _train(self, trial: str, drawn: JsonMapping) -> JsonObject:
        fields, values = self._fields(trial, drawn)
        try:
            config = TrainConfig.from_mapping(fields)
        except ValueError as failure:  # As of a k above the number of experts.
            return _record(trial, fields, values, None, str(failure))
        start = time.perf_counter()
        error = None
        try:
            self.processes.train(config)
        except RunError as failure:
            error = str(failure)
        seconds = time.perf_counter() - start
        return _record(trial, config.to_mapping(), values, seconds, error)

    def _fields(
        self, trial: str, drawn: JsonMapping
    ) -> tuple[JsonObject, JsonObject]:
        """The configuration to train, and the drawn fields."""
        values = self.space.decode(drawn)
        if _EPOCHS in drawn:
            values["epochs"] = drawn[_EPOCHS]
        folder = str(self.sweep.runs / trial)
        return {**self.space.fields(values), "out": folder}, values


def _record(
    trial: str,
    fields: JsonMapping,
    values: JsonMapping,
    seconds: float | None,
    error: str | None,
) -> JsonObject:
    run = Run(fields["out"])
    metrics = run.read_metrics() if error is None else {}
    test = metrics.get("test")
    return {
        "trial": trial,
        "status": "completed" if error is None else "failed",
        "hyperparameters": values,
        # What the run has resolved, if it came so far.
        "config": run.read_recorded().to_mapping()
        if run.config.is_file()
        else dict(fields),
        "validation": metrics.get("validation"),
        "test": test,
        "experts_per_example": test and test["experts_per_example"],
        "seconds": seconds,
        "error": error,
    }
