"""The command line for a process that must not outlive the one it serves.

    python -m recsys.child_process train --config FILE

Its standard input is a pipe of the process that started it. The pipe ends
when that process closes it, ends, or is killed, and so does this one.
"""

import os
import sys
import threading

from recsys.cli import run


def main() -> None:
    """Runs the command line until it is done or nobody waits for it."""
    threading.Thread(target=_end_with_the_pipe, daemon=True).start()
    sys.exit(run(sys.argv[1:]))


def _end_with_the_pipe() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
