"""The commands of a page, as a user types them one after the other."""

import shlex
from collections.abc import Callable
from collections.abc import Iterable
from itertools import groupby

from recsys.cli import run


def run_commands(script: str, in_shell: Callable[[str], None]) -> None:
    """Runs a script: what is `recsys` in this process, where Keras runs.

    What is between two such commands is run by a shell of its own; so is
    `recsys` in the background.

    Args:
        script: Lines as a shell takes them; a backslash joins two.
        in_shell: Runs what it is given in a shell.
    """
    lines = script.replace("\\\n", " ").splitlines()
    for is_here, group in groupby(lines, key=_runs_here):
        if is_here:
            _run_here(group)
        else:
            in_shell("\n".join(group))


def _runs_here(line: str) -> bool:
    return line.startswith("recsys ") and not line.endswith("&")


def _run_here(lines: Iterable[str]) -> None:
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "recsys"
        assert run(arguments) == 0, line
