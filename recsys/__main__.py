"""Starts the command line, as `recsys` and as `python -m recsys`."""

import os
import sys

from recsys.terminal.progress import announce
from recsys.terminal.progress import shown_progress

# The commands that train, or read many runs: all that takes long to begin.
_SLOW = (
    *("train", "tune", "report", "compare", "rerun"),
    *("baseline", "reproduce"),
)
# What launchers count processes by that train one model, of which the first
# prints: torchrun, JAX and Keras.
_INDEXES = ("RANK", "JAX_PROCESS_ID", "KERAS_DISTRIBUTION_PROCESS_ID")


def main() -> None:
    """Runs the command line and exits with its status."""
    try:
        status = _run()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        status = 130
    sys.exit(status)


def _run() -> int:
    if sys.argv[1:2] and sys.argv[1] in _SLOW and "--help" not in sys.argv:
        with shown_progress(not any(map(_of_another_process, _INDEXES))):
            announce(f"Starting recsys {sys.argv[1]}")
    try:
        # Takes a second, in which Ctrl-C may come.
        from recsys.cli import run
    except ModuleNotFoundError as error:
        if os.environ.get("RECSYS_TRACEBACK"):
            raise
        from recsys.errors.missing_package import what_to_install

        print("error:", what_to_install(error), file=sys.stderr)
        return 1
    return run(sys.argv[1:])


def _of_another_process(variable: str) -> bool:
    return os.environ.get(variable, "0") != "0"


if __name__ == "__main__":
    main()
