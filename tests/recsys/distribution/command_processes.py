"""`recsys` as several processes on this machine run it together."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

# Ends during a step, as at a signal from without.
_SCRIPT = r"""
import gc, os, time
gc.set_threshold(20_000, 20, 20)  # As in the tests themselves.
from recsys.training.callbacks.interruption import FiniteLoss

epoch, step, signal = map(int, os.environ["ENDED_AT"].split())

def kill(self, batch, logs=None):
    if (self.epoch, batch) == (epoch, step):
        os.write(2, f"ended at {time.time()}\n".encode())
        os.kill(os.getpid(), signal)

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
        at: When all had ended, in seconds.
    """

    status: int
    printed: str
    errors: str
    at: float


def run_together(
    words: Sequence[str],
    ended_at: Mapping[int, tuple[int, int, int]] | None = None,
) -> list[Ended]:
    """Runs a command as two processes, and waits for both.

    Args:
        words: The words after `recsys`.
        ended_at: By index, the epoch and the step that a process gets a signal
            in, and the signal. It says when, in its standard error.
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
                "ENDED_AT": "{} {} {}".format(
                    *(ended_at or {}).get(index, (-1, -1, 0))
                ),
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
        at = time.time()
    finally:
        for process in started:
            process.kill()
    return [
        Ended(process.returncode, *printed, at)
        for process, printed in zip(started, texts, strict=True)
    ]
