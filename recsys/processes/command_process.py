import json
import os
import subprocess
import sys
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import MISSING
from dataclasses import fields
from pathlib import Path
from typing import Any

from recsys.files.json_files import JsonObject

# Flags whose opposite has a name of its own.
_OFF = {"exclude_seen": "--include-seen"}


class CommandProcess:
    """A process that runs commands of `recsys`, one after the other.

    It ends when this process does. `run` is called by one thread at a time;
    `end` may be called by another.

    Args:
        environment: What is set for it beside this process's environment,
            which comes first.
        log: File for what it prints before the first command.

    Attributes:
        commands: How many commands it has run.
        peak_mib: The most memory that it has needed so far, in MiB.
        cpu_seconds: The CPU time that it has needed so far, from its start.
    """

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self.commands = 0
        self.peak_mib = 0.0
        self.cpu_seconds = 0.0
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "recsys.command_server"],
                env={**environment, **os.environ},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                encoding="utf-8",
            )

    @property
    def is_alive(self) -> bool:
        """True if it can run another command."""
        return self._process.poll() is None

    def run(self, arguments: Sequence[str], log: Path) -> int:
        """Runs a command.

        Args:
            arguments: The words after `recsys`.
            log: File that what the command prints is added to.

        Returns:
            What the command has ended with, or the process, if that has
            ended: below 0, the signal that has killed it.
        """
        self.commands += 1
        reply = self._ask({"arguments": list(arguments), "log": str(log)})
        if reply is None:
            return self._process.wait()
        self.peak_mib = reply["peak_mib"]
        self.cpu_seconds = reply["cpu_seconds"]
        return int(reply["status"])

    def _ask(self, request: dict[str, object]) -> JsonObject | None:
        """Its answer to a request; `None` if it has ended instead."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # A ValueError: another thread has ended it.
        with suppress(BrokenPipeError, ValueError):
            print(json.dumps(request), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else None

    def end(self) -> None:
        """Tells it to end, whatever it does."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def wait(self) -> None:
        """Waits until it has ended, after a request to end."""
        assert self._process.stdout is not None
        self._process.wait()
        self._process.stdout.close()


def why_it_failed(code: int, log: Path) -> str:
    """Returns why a command failed: its error, or the last that it said.

    Args:
        code: What `CommandProcess.run` has returned.
        log: What it has written to.
    """
    if code < 0:
        return f"killed by signal {-code}"
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    written = [line.strip() for line in lines if line.strip()]
    # Libraries may complain after it, while the interpreter ends.
    errors = [line for line in written if line.startswith("error: ")]
    if not written:
        return f"status {code}"
    return (errors or written)[-1].removeprefix("error: ")


def command_words(
    command: str, kind: type[Any], given: Mapping[str, Any]
) -> list[str]:
    """Returns the words that give fields to a command of `recsys`.

    Args:
        command: Name of the command.
        kind: The dataclass of its fields. What is as by default has no word.
        given: Fields by name.

    Example:
    >>> from recsys.config.train_config import TrainConfig
    >>> given = {"task_weights": {"like": 2}, "ranker": False, "patience": 3}
    >>> command_words("train", TrainConfig, given)
    ['train', '--task-weight', 'like=2', '--no-ranker']
    """
    defaults = {field.name: field.default for field in fields(kind)}
    words = [command]
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        if value == defaults.get(name, MISSING):
            continue
        if isinstance(value, bool):
            off = _OFF.get(name, f"--no-{flag[2:]}")
            words.append(flag if value else off)
        elif isinstance(value, Mapping):
            for key, entry in value.items():
                words += [flag.removesuffix("s"), f"{key}={entry}"]
        else:
            words += [flag, str(value)]
    return words
