"""Starts the command line, as `recsys` and as `python -m recsys`."""

import os
import sys

from recsys.missing_package import what_to_install


def main() -> None:
    """Runs the command line and exits with its status."""
    try:
        status = _run()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        status = 130
    sys.exit(status)


def _run() -> int:
    try:
        # Takes a second, in which Ctrl-C may come.
        from recsys.cli import run
    except ModuleNotFoundError as error:
        if os.environ.get("RECSYS_TRACEBACK"):
            raise
        print("error:", what_to_install(error), file=sys.stderr)
        return 1
    return run(sys.argv[1:])


if __name__ == "__main__":
    main()
