"""Folders of versions, as TensorFlow Serving has them."""

from pathlib import Path

from recsys.errors.reading import reading
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json
from recsys.serving.runner import holds_model

_FLAT_VERSION = 1
_LARGEST_VERSION = 2**63 - 1


def find_versions(folder: Path) -> dict[int, Path]:
    """Returns the versions of a model.

    Args:
        folder: With folders `1`, `2`, ...; or the model itself, which is
            version 1 then.

    Returns:
        By number, the folder of each version; nothing if there is no `folder`.
    """
    folders = {}
    if holds_model(folder):
        folders[_FLAT_VERSION] = folder
    for path in folder.iterdir() if folder.is_dir() else []:
        version = _version(path.name)
        if version is not None and path.is_dir():
            folders[version] = path
    return folders


def fingerprint(folder: Path) -> object:
    """Returns a value that changes when a file below a folder does."""
    files = []
    for path in sorted(folder.rglob("*")):
        try:
            stat = path.stat()
        except OSError:  # Removed meanwhile.
            continue
        files.append((str(path), stat.st_size, stat.st_mtime_ns))
    return files


def _version(name: str) -> int | None:
    if not (name.isascii() and name.isdigit() and len(name) < 20):
        return None
    version = int(name)
    is_plain = str(version) == name and version <= _LARGEST_VERSION
    return version if is_plain else None


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
