"""`recsys` as several processes on this machine run it together."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

# Kills itself, as the system does when memory is short, during a step.
_SCRIPT = """
import os, signal, sys
from recsys.training.finite_loss import FiniteLoss

at = os.environ.get("KILLED_AT")

def kill(self, batch, logs=None):
    if f"{self.epoch},{batch}" == at:
        os.kill(os.getpid(), signal.SIGKILL)

FiniteLoss.on_train_batch_begin = kill
from recsys.__main__ import main
main()
"""


@dataclass(frozen=True)
class Ended:
    """How a process has ended.

    Attributes:
        status: Its exit status; that of a signal is negative.
        printed: What it has written to its standard output.
        errors: What it has written to its standard error.
    """

    status: int
    printed: str
    errors: str


def run_together(
    words: Sequence[str], kill: Mapping[int, str] | None = None
) -> list[Ended]:
    """Runs a command as two processes, and waits for both.

    Args:
        words: The words after `recsys`.
        kill: By index, the epoch and the step that a process is killed in, as
            `"1,3"`.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, *words],
            env={
                **os.environ,
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "WORLD_SIZE": "2",
                "RANK": str(index),
                "KILLED_AT": (kill or {}).get(index, ""),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    try:
        texts = [process.communicate(timeout=300) for process in started]
    finally:
        for process in started:
            process.kill()
    return [
        Ended(process.returncode, *printed)
        for process, printed in zip(started, texts, strict=True)
    ]
