"""Stands in for the processes that commands are given to.

It takes the place of `CommandProcess`, and runs commands in this process, which
has imported what they need.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import redirect_stderr
from contextlib import redirect_stdout
from pathlib import Path

from recsys.cli import run

# What takes its place for trainings.
PROCESS = "recsys.processes.training_processes.CommandProcess"


class CommandsHere:
    """Has the methods of `CommandProcess`."""

    is_alive = True
    peak_mib = 1.0
    cpu_seconds = 60.0

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self.commands = 0

    def run(self, arguments: Sequence[str], log: Path) -> int:
        self.commands += 1
        with (
            log.open("a") as file,
            redirect_stdout(file),
            redirect_stderr(file),
        ):
            return run(list(arguments))

    def end(self) -> None:
        """Nothing outlives a command."""

    def wait(self) -> None:
        """Nothing outlives a command."""
