"""Starts the command line, as `recsys` and as `python -m recsys`."""

import os
import sys

from recsys.missing_package import what_to_install


def main() -> None:
    """Runs the command line and exits with its status."""
    try:
        from recsys import cli
    except ModuleNotFoundError as error:
        if os.environ.get("RECSYS_TRACEBACK"):
            raise
        sys.exit(f"error: {what_to_install(error)}")
    cli.main()


if __name__ == "__main__":
    main()
