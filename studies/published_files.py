from collections.abc import Sequence
from pathlib import Path


def find_file(folder: Path, names: Sequence[str]) -> Path:
    """Finds a file by the first of its names, packed by gzip or not.

    Args:
        folder: Where it is.
        names: The names under which it is published, best first.

    Returns:
        The file; its name may end in `.gz` behind what is given.

    Raises:
        FileNotFoundError: There is none; the message names the folder and
            all names.
    """
    for name in names:
        for file in (folder / name, folder / f"{name}.gz"):
            if file.is_file():
                return file
    raise FileNotFoundError(
        f"{folder}: expected a file {' or '.join(names)}, or the same with "
        ".gz. Received: a folder without it"
        if folder.is_dir()
        else f"{folder}: expected a folder with {' or '.join(names)}. "
        "Received: no folder of this name"
    )
