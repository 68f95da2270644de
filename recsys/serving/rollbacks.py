"""The versions that a server has gone back from, kept over restarts."""

from pathlib import Path

from recsys.errors.reading import reading
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json

# Hidden: it is no version, and `recsys export` passes over it.
ROLLBACKS_FILE = ".rolled_back.json"
_KEY = "versions"


def read_rollbacks(folder: Path) -> set[int]:
    """Returns the versions that are not to be served again.

    Args:
        folder: Folder of the versions.

    Raises:
        FileError: The file is broken.
    """
    file = folder / ROLLBACKS_FILE
    if not file.is_file():
        return set()
    expected = f'JSON such as {{"{_KEY}": [2]}}'
    with reading(file, expected):
        versions = read_json(file)[_KEY]
        if not all(type(version) is int for version in versions):
            raise ValueError(versions)
        return set(versions)


def write_rollbacks(folder: Path, versions: set[int]) -> None:
    """Writes them.

    Args:
        folder: Folder of the versions.
        versions: The versions.

    Raises:
        OSError: The folder cannot be written to.
    """
    write_json(folder / ROLLBACKS_FILE, {_KEY: sorted(versions)})
