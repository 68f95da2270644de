"""Links within a folder that a command writes to."""

import os
from pathlib import Path

from recsys.errors import RunError

# Files that are added to; all others are replaced, and a link with them.
_LOGS = (".log", ".jsonl")


def check_no_links(folder: str | Path) -> None:
    """Checks that what is written into a folder stays in it.

    The folder itself may be a link: whoever names it chooses where to write.
    Files that are only read may be links, too.

    Args:
        folder: The folder, which need not exist.

    Raises:
        RunError: A folder in it, or a log, is a link.
    """
    for place, folders, files in os.walk(folder):
        logs = [name for name in files if name.endswith(_LOGS)]
        for name in [*folders, *logs]:
            path = Path(place, name)
            if path.is_symlink():
                raise RunError(
                    f"{path}: expected a part of the folder that is written "
                    f"to. Received: a link to {os.readlink(path)}"
                )
