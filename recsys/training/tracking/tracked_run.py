from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated
from typing import Self

from pydantic import BaseModel
from pydantic import Field
from pydantic import StrictInt
from pydantic import StrictStr

from recsys.config.resolved_config import ResolvedConfig
from recsys.config.trackers import TRACKERS
from recsys.errors import RunError
from recsys.errors.shapes import check_shape
from recsys.errors.shown import printable
from recsys.errors.shown import shortened
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json
from recsys.runs.run import Run
from recsys.terminal.progress import announce
from recsys.training.tracking.tracker import Tracker

FILE = "tracking.json"
_FILES = (
    *("config.json", "data.json", "metrics.json", "history.csv"),
    *("refit_history.csv", "tower_history.csv", "weights.csv", "plots/*.png"),
)
_LONGEST_ERROR = 500


class _Saved(BaseModel):
    """The content of `tracking.json`."""

    tracker: StrictStr
    id: StrictStr
    epochs: Annotated[StrictInt, Field(ge=0)]


def check_tracker(name: str | None) -> None:
    """Raises ModuleNotFoundError where the package of a tracker is missing.

    Args:
        name: Name of the tracker; `None` for none.
    """
    if name is not None:
        resolve_name(TRACKERS[name]).errors()


class TrackedRun:
    """A training that is on record in an experiment tracker.

    `tracking.json` in the run folder says which run of the tracker it is, and
    how many epochs that has: a training that is resumed goes on with it. A
    tracker that cannot be reached later on does not end a training. What was
    not logged is logged after the next epoch.

    Args:
        run: The run.
        name: Name of the tracker.
        tracker: Its run.
        epochs: Epochs that were logged.
    """

    def __init__(
        self, run: Run, name: str, tracker: Tracker, epochs: int
    ) -> None:
        self.run = run
        self.epochs = epochs
        self._name = name
        self._run_there = tracker

    @classmethod
    def open(cls, run: Run, config: ResolvedConfig) -> Self | None:
        """Begins to track a training, or goes on with it.

        Args:
            run: Its run.
            config: The configuration, which is logged.

        Returns:
            `None` where nothing is to be tracked.

        Raises:
            FileError: `tracking.json` is broken.
            RunError: The tracker cannot be reached.
        """
        name = config.track
        if name is None:
            return None
        kind, file = resolve_name(TRACKERS[name]), run.folder / FILE
        known = None
        if file.is_file():
            known = check_shape(read_json(file), _Saved, file)
        try:
            if known is not None and known.tracker == name:
                return cls(run, name, kind.reopen(known.id), known.epochs)
            tracker = kind.create(run.folder.name, config.to_mapping())
        except kind.errors() as error:
            raise RunError(
                f"`track`: {name} refuses the run: {_in_words(error)}"
            ) from error
        tracked = cls(run, name, tracker, 0)
        tracked._write()
        return tracked

    def log_epochs(self, history: Sequence[Mapping[str, float]]) -> None:
        """Logs the epochs that were not logged before.

        Args:
            history: All epochs so far.
        """
        with self._reached():
            for row in history[self.epochs :]:
                metrics = {name: row[name] for name in row if name != "epoch"}
                self._run_there.log_epoch(metrics, self.epochs + 1)
                self.epochs += 1
        self._write()

    def finish(self, metrics: JsonMapping, further: Sequence[Path]) -> None:
        """Logs the metrics of the finished run and its files; closes it.

        Args:
            metrics: What `metrics.json` holds.
            further: Files beside those of the run folder.
        """
        folder = self.run.folder
        files = {
            file.relative_to(folder).as_posix(): file
            for pattern in _FILES
            for file in sorted(folder.glob(pattern))
        }
        files |= {file.name: file for file in further}
        with self._reached():
            self._run_there.log_result(numbers(metrics), files)
            self._run_there.end(failed=False)

    def fail(self) -> None:
        """Closes a run that was interrupted."""
        with self._reached():
            self._run_there.end(failed=True)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except self._run_there.errors() as error:
            announce(f"Warning: {self._name}: {_in_words(error)}")

    def _write(self) -> None:
        self.run.folder.mkdir(parents=True, exist_ok=True)
        content = {"tracker": self._name, "id": self._run_there.id}
        write_json(self.run.folder / FILE, {**content, "epochs": self.epochs})


def numbers(metrics: JsonMapping, above: str = "") -> dict[str, float]:
    """Returns the numbers of nested metrics by their path.

    Args:
        metrics: Metrics; what is no number is left out.
        above: Path of the metrics.

    Example:
    >>> numbers({"test": {"rows": 3, "tasks": {"watch": {"auc": 0.5}}}})
    {'test/rows': 3.0, 'test/tasks/watch/auc': 0.5}
    """
    flat: dict[str, float] = {}
    for name, value in metrics.items():
        path = f"{above}{name}"
        if isinstance(value, Mapping):
            flat |= numbers(value, f"{path}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            flat[path] = float(value)
    return flat


def _in_words(error: Exception) -> str:
    return shortened(printable(str(error)), _LONGEST_ERROR)
