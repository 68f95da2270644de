import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from typing import Self

from recsys.errors.shown import printable
from recsys.files.file_names import short_name
from recsys.files.json_files import JsonMapping
from recsys.training.tracking.tracker import EXPERIMENT
from recsys.training.tracking.tracker import Tracker

if TYPE_CHECKING:
    from mlflow import MlflowClient

FOLDER = "mlruns"
_MOST_PARAMETERS = 100  # At a time.
_LONGEST_NAME, _LONGEST_VALUE = 250, 6000
_UNKNOWN = re.compile(r"[^\w\- :/]")


class MlflowTracker(Tracker):
    """A run of MLflow, through its client.

    The server is that of `MLFLOW_TRACKING_URI`, or else the folder `mlruns` of
    the current one, the experiment that of `MLFLOW_EXPERIMENT_NAME`, or else
    "recsys". MLflow takes few letters in names: `@` and others become `_`.

    Args:
        id: What MLflow calls the run.
    """

    def __init__(self, id: str) -> None:
        self.id = id
        self._client = _client()

    @classmethod
    def errors(cls) -> tuple[type[Exception], ...]:
        _set_defaults()
        from mlflow.exceptions import MlflowException

        return MlflowException, OSError

    @classmethod
    def create(cls, name: str, parameters: JsonMapping) -> Self:
        client = _client()
        from mlflow.entities import Param

        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        existing = client.get_experiment_by_name(experiment)
        number = (
            client.create_experiment(experiment)
            if existing is None
            else existing.experiment_id
        )
        tracker = cls(client.create_run(number, run_name=name).info.run_id)
        noted = [
            Param(_name(field), printable(str(value))[:_LONGEST_VALUE])
            for field, value in parameters.items()
        ]
        for start in range(0, len(noted), _MOST_PARAMETERS):
            part = noted[start : start + _MOST_PARAMETERS]
            client.log_batch(tracker.id, params=part)
        return tracker

    @classmethod
    def reopen(cls, id: str) -> Self:
        tracker = cls(id)
        tracker._client.update_run(id, status="RUNNING")
        return tracker

    def log_epoch(self, metrics: Mapping[str, float], epoch: int) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        noted = [
            Metric(_name(name), float(value), now, epoch)
            for name, value in metrics.items()
        ]
        self._client.log_batch(self.id, metrics=noted)

    def log_result(
        self, metrics: Mapping[str, float], files: Mapping[str, Path]
    ) -> None:
        self.log_epoch(metrics, 0)
        for name, file in files.items():
            folder = PurePosixPath(name).parent.as_posix()
            place = None if folder == "." else folder
            self._client.log_artifact(self.id, str(file), place)

    def end(self, failed: bool) -> None:
        status = "FAILED" if failed else "FINISHED"
        self._client.set_terminated(self.id, status)


def _client() -> "MlflowClient":
    _set_defaults()
    from mlflow import MlflowClient

    place = os.environ.get("MLFLOW_TRACKING_URI")
    return MlflowClient(place or Path(FOLDER).absolute().as_uri())


def _set_defaults() -> None:
    """Settings of MLflow that have to be there before it is imported.

    Without a database it keeps runs in files only where it is told to, and it
    reports its own use to its makers unless it is told not to.
    """
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")


def _name(name: str) -> str:
    """A name as MLflow takes it."""
    return short_name(_UNKNOWN.sub("_", name), _LONGEST_NAME)
