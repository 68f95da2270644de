import json
import os
from pathlib import Path
from typing import Any

from recsys.old_names import current_fields
from recsys.output_lock import sole_writer

# Seconds that others need at most to add their trial.
_PATIENCE = 60.0


class TrialLog:
    """The finished trials of a sweep, a JSON line each.

    Several threads and processes may append at the same time. A line that is
    cut off, as a killed process may leave the last one, counts as not there.

    Args:
        file: The file, which need not exist yet.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self) -> list[dict[str, Any]]:
        """Returns the trials in the order in which they came to their end.

        Raises:
            ValueError: A line is not JSON.
        """
        if not self.file.is_file():
            return []
        text = self.file.read_text(encoding="utf-8")
        records = []
        for number, line in enumerate(text.split("\n")[:-1], start=1):
            try:
                records.append(_current(json.loads(line)))
            except ValueError as error:
                raise ValueError(
                    f"{self.file}, line {number}: expected JSON. "
                    f"Received: {error}"
                ) from None
        return records

    def find(self, trial: str) -> dict[str, Any] | None:
        """Returns what is known of one trial; `None` if it is not finished."""
        for record in self.read():
            if record["trial"] == trial:
                return record
        return None

    def append(self, record: dict[str, Any]) -> None:
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


def _current(record: dict[str, Any]) -> dict[str, Any]:
    """A trial with the names that the fields of `TrainConfig` have now."""
    named = ("config", "hyperparameters")
    return record | {
        name: current_fields(record[name]) for name in named if name in record
    }
