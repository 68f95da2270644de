import os
from pathlib import Path

from recsys.errors import RunError
from recsys.errors.shown import printable

# Files that are added to; all others are replaced, and a link with them.
_LOGS = (".log", ".jsonl")


def check_vacant(folder: Path) -> None:
    """Raises RunError unless a folder is new or empty."""
    if folder.exists() and (folder.is_file() or any(folder.iterdir())):
        raise RunError(
            "`out` must be a new or empty folder. "
            f"Received: out={str(folder)!r}, which is not empty"
        )


def check_written(file: Path, what: str) -> None:
    """Raises RunError unless a file is there that says what its folder is.

    Args:
        file: The file.
        what: What the folder has to be the one of, such as "a run".

    Example:
    >>> check_written(Path("runs/first/config.json"), "a run")
    Traceback (most recent call last):
    ...
    recsys.errors.RunError: runs/first: expected the folder of a run. \
Received: no folder of that name
    """
    if file.is_file():
        return
    folder = file.parent
    if folder.is_dir():
        received = f"a folder without {file.name}"
    else:
        received = "a file" if folder.exists() else "no folder of that name"
    raise RunError(
        f"{printable(str(folder))}: expected the folder of {what}. "
        f"Received: {received}"
    )


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
