from pathlib import Path

from recsys.errors import RunError
from recsys.errors.shown import printable


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
