"""The command line for a process that must not outlive the one it serves.

    python -m recsys.child_process train --config FILE

`recsys.processes.lifeline.run_alongside` starts it.
"""

from recsys import __main__
from recsys.processes.lifeline import end_with_starter


def main() -> None:
    """Runs the command line until it is done or nobody waits for it."""
    end_with_starter()
    __main__.main()


if __name__ == "__main__":
    main()
