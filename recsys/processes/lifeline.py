"""Processes that do not outlive the one that started them.

The standard input of such a process is a pipe that its starter holds open.
The pipe ends when the starter closes it, ends or is killed.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from collections.abc import Sequence


def run_alongside(
    command: Sequence[str], env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Runs a command that ends when this process does, and waits for it.

    Args:
        command: The command; it has to call `end_with_starter`.
        env: Its environment; this process's unless given.

    Returns:
        Its status and, as texts, what it has printed.
    """
    lower, upper = os.pipe()
    try:
        return subprocess.run(
            command,
            env=env,
            stdin=lower,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        os.close(lower)
        os.close(upper)


def end_with_starter() -> None:
    """Ends this process, from now on, when its standard input ends."""
    threading.Thread(target=_wait_for_end, daemon=True).start()


def _wait_for_end() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)
