import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from typing import Any
from typing import Literal

from pydantic import BaseModel
from pydantic import StringConstraints

from recsys.config.config_file import Fields
from recsys.errors import FileError
from recsys.errors.reading import read_text
from recsys.errors.shapes import check_shape
from recsys.files.json_files import JsonObject
from recsys.files.json_files import parse_json
from recsys.files.output_lock import sole_writer
from recsys.runs.metrics_file import SplitMetrics

# Seconds that others need at most to add their trial.
_PATIENCE = 60.0


class TrialRecord(BaseModel):
    """The record of a finished trial.

    Attributes:
        trial: Its name, as KerasTuner draws it.
        status: How it ended.
        hyperparameters: What was drawn for it, by name.
        config: What was trained, by field of `TrainConfig`; of a failed
            trial, it may be what could not be.
    """

    trial: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$")]
    status: Literal["completed", "failed"]
    hyperparameters: JsonObject = {}
    config: JsonObject = {}


class CompletedTrial(TrialRecord):
    """A trial with a loss.

    Attributes:
        validation: Its metrics on the validation split.
        test: Those on the test split.
    """

    hyperparameters: JsonObject
    config: Fields
    validation: SplitMetrics
    test: SplitMetrics


class FailedTrial(TrialRecord):
    """A trial without one.

    Attributes:
        error: What went wrong.
    """

    error: str


class TrialLog:
    """The finished trials of a sweep, a JSON line each.

    Several threads and processes may append at the same time. A line that is
    cut off, as a killed process may leave the last one, counts as not there.

    Args:
        file: The file, which need not exist yet.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self) -> list[JsonObject]:
        """Returns the trials in the order in which they came to their end.

        Raises:
            FileError: A line is not JSON, or no record of a trial, or there is
                one of the trial already.
        """
        records: dict[str, JsonObject] = {}
        for line, record in self._lines():
            checked = self._checked(record, line)
            name = checked["trial"]
            if name in records:
                expected = "a trial that is not there yet"
                raise FileError.at(self.file, expected, repr(name), line=line)
            records[name] = checked
        return list(records.values())

    def find(self, trial: str) -> JsonObject | None:
        """Returns what is known of one trial; `None` if it is not finished.

        Raises:
            FileError: A line is not JSON, or that of the trial no record.
        """
        for line, record in self._lines():
            if isinstance(record, dict) and record.get("trial") == trial:
                return self._checked(record, line)
        return None

    def _lines(self) -> Iterator[tuple[int, object]]:
        """The content of each whole line, with its number."""
        if self.file.is_file():
            lines = read_text(self.file, "JSON lines").split("\n")[:-1]
            for number, line in enumerate(lines, start=1):
                yield number, parse_json(line, self.file, first_line=number)

    def _checked(self, record: Any, line: int) -> JsonObject:
        """A record, under the names that its fields have now."""
        trial = check_shape(record, TrialRecord, self.file, line)
        shapes = {"completed": CompletedTrial, "failed": FailedTrial}
        check_shape(record, shapes[trial.status], self.file, line)
        named = {"hyperparameters", "config"}
        current: JsonObject = trial.model_dump(include=named)
        return record | {name: current[name] for name in named & record.keys()}

    def append(self, record: JsonObject) -> None:
        """Adds a trial, and takes away a last line that is cut off."""
        line = json.dumps(record, ensure_ascii=False) + "\n"
        with (
            sole_writer(self.file, wait=_PATIENCE),
            self.file.open("a+b") as file,
        ):
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
            file.write(line.encode())
            file.flush()
            # The oracle must never know of more trials than the log.
            os.fsync(file.fileno())
