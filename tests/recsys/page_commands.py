"""The commands of a page, as a user types them one after the other."""

import os
import shlex
import subprocess
from collections.abc import Callable
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from recsys.cli import run


def run_commands(
    script: str,
    in_shell: Callable[[str], None],
    quick_python: Path | None = None,
) -> None:
    """Runs a script: what is `recsys` in this process, where Keras runs.

    What is between two such commands is run by a shell of its own; so is
    `recsys` in the background.

    Args:
        script: Lines as a shell takes them; a backslash joins two.
        in_shell: Runs what it is given in a shell.
        quick_python: An interpreter that trains under PyTorch; this process
            trains unless given.
    """
    lines = script.replace("\\\n", " ").splitlines()
    for is_here, group in groupby(lines, key=_runs_here):
        if is_here:
            _run_here(group, quick_python)
        else:
            in_shell("\n".join(group))


def _runs_here(line: str) -> bool:
    return line.startswith("recsys ") and not line.endswith("&")


def _run_here(lines: Iterable[str], quick_python: Path | None) -> None:
    for line in lines:
        program, command, *arguments = shlex.split(line)
        assert program == "recsys"
        if command == "train" and quick_python is not None:
            subprocess.run(
                [quick_python, "-m", "recsys", command, *arguments],
                env={**os.environ, "KERAS_BACKEND": "torch"},
                check=True,
            )
        else:
            assert run([command, *arguments]) == 0, line
