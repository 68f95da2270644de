"""The command line for a process that must not outlive the one it serves.

    python -m recsys.child_process train --config FILE

`recsys.lifeline.run_alongside` starts it.
"""

import sys

from recsys.cli import run
from recsys.lifeline import end_with_starter


def main() -> None:
    """Runs the command line until it is done or nobody waits for it."""
    end_with_starter()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
