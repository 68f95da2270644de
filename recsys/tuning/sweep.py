import json
import time
from dataclasses import asdict
from pathlib import Path

from pydantic import ConfigDict
from pydantic import StrictInt
from pydantic.dataclasses import dataclass

from recsys.config.config_file import Fields
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.errors import RunError
from recsys.errors.choices import check_choice
from recsys.errors.reading import naming
from recsys.errors.shapes import check_shape
from recsys.files.folders import check_written
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json
from recsys.runs.data_file import check_data
from recsys.runs.data_file import write_data
from recsys.tuning.selection import Selection
from recsys.tuning.selection import is_sparse_enough
from recsys.tuning.selection import notice_of
from recsys.tuning.trial_log import TrialLog


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Plan:
    """Everything that the trials of a sweep depend on.

    Attributes:
        tuner: What draws the trials: "random", "bayesian" or "hyperband".
        trials: How many trials there are at most.
        fields: The fields of `TrainConfig` that all trials share.
        space: What the others are drawn from, as in a YAML file.
    """

    tuner: str
    trials: StrictInt
    fields: Fields
    space: JsonObject


class Sweep:
    """The folder of a sweep and the names of what is in it.

    Attributes:
        folder: The folder, which need not exist yet.
        plan: What the sweep was started with.
        data: The fingerprint of its data.
        log: The finished trials, `trials.jsonl`.
        runs: Folder of the run folders of the trials.
        tuner: Folder of the state of KerasTuner.
        state: The file in it.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.plan = self.folder / "sweep.json"
        self.data = self.folder / "data.json"
        self.log = TrialLog(self.folder / "trials.jsonl")
        self.runs = self.folder / "trials"
        self.tuner = self.folder / "tuner"
        self.state = self.tuner / "oracle.json"

    def start(self, plan: Plan) -> None:
        """Begins a sweep in a new or empty folder.

        Raises:
            RunError: The folder is not empty.
        """
        if self.folder.exists() and any(self.folder.iterdir()):
            raise RunError(
                "`out` must be a new or empty folder, or the folder of an "
                "interrupted sweep together with `resume`. "
                f"Received: out={str(self.folder)!r}, a folder with files in it"
            )
        write_data(self.data, plan.fields["data"])
        write_json(self.plan, asdict(plan))  # For which workers wait.

    def wait_for_start(self, seconds: float = 3600.0) -> None:
        """Waits until another process has started the sweep.

        A worker that came before its chief must not write to the folder: the
        chief begins only in an empty one.

        Args:
            seconds: For how long at most; KerasTuner's workers wait as long.

        Raises:
            RunError: No process has started it by then.
        """
        last = time.monotonic() + seconds
        while not self.plan.is_file():
            if time.monotonic() > last:
                raise RunError(
                    f"{self.folder}: expected a chief that begins the sweep "
                    f"within {seconds:g} seconds. Received: none"
                )
            time.sleep(0.1)

    def check_same(self, plan: Plan) -> None:
        """Checks that a sweep is resumed as it was started.

        Raises:
            RunError: There is no sweep in the folder, or its data have changed.
            ValueError: It was started with something else.
        """
        started = self.read_plan()
        for name, value in asdict(plan).items():
            was = getattr(started, name)
            # Draws follow the order of a space; that of fields does not matter.
            in_any_order = name == "fields"
            if _as_read(value, in_any_order) != _as_read(was, in_any_order):
                raise ValueError(
                    f"`{name}` must be what the sweep was started with, {was} "
                    f"in {self.plan}, to resume it. Received: {name}="
                    f"{value}"
                )
        check_data(self.data, plan.fields["data"])

    def read_plan(self) -> Plan:
        """Returns what the sweep was started with.

        Raises:
            FileError: The file is broken.
            RunError: There is no sweep in the folder.
        """
        check_written(self.plan, "a sweep")
        plan: Plan = check_shape(read_json(self.plan), Plan, self.plan)
        return plan

    def select(self, sparse_only: bool = True, by: str = "loss") -> Selection:
        """Returns the completed trials that may be chosen as the best.

        Args:
            sparse_only: Boolean, whether those whose gate was to become
                sparse and has not are left out. Defaults to `True`.
            by: What the first one has the best of on the validation split:
                "loss" (default), or "accuracy", the mean of the tasks'.

        Raises:
            FileError: The log is broken.
            RunError: A trial has no accuracy.
            ValueError: `by` is something else.
        """
        check_choice("by", by, ("loss", "accuracy"))
        trials, completed, left_out = [], [], []
        for record in self.log.read():
            if record["status"] != "completed":
                continue
            # Where it was trained, and on what, does not matter here.
            fields = {"data": ".", "out": ".", **record["config"]}
            config = ResolvedConfig.of(TrainConfig.from_mapping(fields))
            with naming(self.log.file):
                counts = is_sparse_enough(config, record["validation"])
            completed.append(config.gate)
            if counts or not sparse_only:
                trials.append(record)
            else:
                left_out.append(config.gate)
        if by == "accuracy":
            trials.sort(key=self._accuracy, reverse=True)
        else:
            trials.sort(key=lambda record: record["validation"]["loss"])
        return Selection(trials, notice_of(left_out, completed))

    def best(self, count: int, sparse_only: bool = True) -> list[JsonObject]:
        """Returns the completed trials with the lowest validation losses.

        Args:
            count: How many to return, if there are as many.
            sparse_only: As for `select`.
        """
        return self.select(sparse_only).trials[:count]

    def _accuracy(self, record: JsonObject) -> float:
        accuracy: float | None = record["validation"].get("accuracy")
        if accuracy is None:
            raise RunError(
                f"{self.log.file}: expected trials of several tasks that all "
                f"have an accuracy. Received: trial {record['trial']!r} "
                "without"
            )
        return accuracy


def _as_read(value: object, in_any_order: bool) -> str:
    """A value as JSON in which (1, 2) is [1, 2], and 1 is 1.0."""
    read = json.loads(json.dumps(value), parse_int=float)
    return json.dumps(read, sort_keys=in_any_order)
