"""Measures how much of a processor `recsys` takes until it does something.

    KERAS_BACKEND=torch python benchmarks/startup.py

Prints a JSON line for each of: the interpreter alone; `recsys --help`; the
import of the Keras backend alone; `recsys train --data synthetic`, up to the
end of its first step. Each is the median of `--runs` child processes, in turn,
in CPU seconds of the child, user and system: a busy machine changes them far
less than the time on the clock.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN
from resource import getrusage
from statistics import median

from recsys.backend import backend_to_start

# Ends the process where Keras would tell callbacks that a step has ended.
_FIRST_STEP = """
import os, sys
from recsys.backend import start_backend
start_backend(None)
import keras
keras.callbacks.CallbackList.on_train_batch_end = lambda *_, **__: os._exit(0)
from recsys.cli import run
run(["train", "--data", "synthetic", "--out", sys.argv[1]])
sys.exit("ended without a step")
"""
OUT = "OUT"  # Stands for a folder that is not there yet.
COMMANDS = {
    "python": ["-c", "pass"],
    "help": ["-m", "recsys", "--help"],
    "keras": ["-c", "import keras"],
    "first step": ["-c", _FIRST_STEP, OUT],
}


def cpu_seconds(arguments: list[str]) -> float:
    """CPU seconds that the interpreter takes with these arguments."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder, "run"))
        before = getrusage(RUSAGE_CHILDREN)
        subprocess.run(
            [
                sys.executable,
                *(out if word == OUT else word for word in arguments),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        after = getrusage(RUSAGE_CHILDREN)
    user = after.ru_utime - before.ru_utime
    return user + after.ru_stime - before.ru_stime


def main() -> None:
    """Prints a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--of", nargs="+", choices=COMMANDS, default=COMMANDS)
    options = parser.parse_args()
    taken: dict[str, list[float]] = {name: [] for name in options.of}
    for _ in range(options.runs):
        for name, seconds in taken.items():
            seconds.append(cpu_seconds(COMMANDS[name]))
    for name, seconds in taken.items():
        line = {
            "backend": backend_to_start(None),
            "command": name,
            "cpu_seconds": round(median(seconds), 3),
            "least": round(min(seconds), 3),
            "most": round(max(seconds), 3),
        }
        print(json.dumps(line))


if __name__ == "__main__":
    main()
