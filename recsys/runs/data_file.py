"""`data.json`: checksums of the data that a run or a sweep was started with."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from recsys.data.item_columns import joins_items
from recsys.data.items_file import items_file
from recsys.data.split_dataset import SCHEMA_FILE
from recsys.data.split_dataset import SPLITS
from recsys.data.split_dataset import read_schema
from recsys.data.split_files import is_part
from recsys.errors import RunError
from recsys.errors.shapes import check_shape
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json


def write_data(file: Path, source: str) -> None:
    """Writes the fingerprint of a data set.

    Args:
        file: The file to write.
        source: As in `fingerprint`.
    """
    write_json(file, fingerprint(source))


def check_data(file: Path, source: str) -> None:
    """Checks that a data set is still what it was.

    Args:
        file: What `write_data` has written for it. Of what earlier versions
            have left without such a file, nothing is known.
        source: The data set.

    Raises:
        FileError: The file is broken.
        RunError: The data have changed.
    """
    if not file.is_file():
        return
    was, now = _recorded(file), fingerprint(source)
    names = sorted(was.keys() | now.keys())
    changed = [name for name in names if was.get(name) != now.get(name)]
    if changed:
        raise RunError(
            f"{file.parent}: expected the data of its start. "
            f"Received: other data; changed: {', '.join(changed)}"
        )


def has_same_split(file: Path, source: str, split: str) -> bool:
    """Whether a data set has the same rows in a split as it had.

    Args:
        file: What `write_data` has written for it, or for another one.
        source: The data set.
        split: Name of the split.

    Raises:
        FileError: The file is broken.
    """
    if not file.is_file():
        return False
    before = {
        name: digest
        for name, digest in _recorded(file).items()
        if _is_of(Path(name), split)
    }
    return bool(before) and before == _digests(
        Path(source), lambda path: _is_of(path, split)
    )


def fingerprint(source: str | Path) -> dict[str, str]:
    """Returns what tells the content of a data set from any other.

    Args:
        source: `"synthetic"`, or a data folder.

    Returns:
        For each file of the schema and the splits, and `items` where rows take
        features from there, by its path in the folder, the SHA-256 of its
        content. Nothing for the generated data set.

    Example:
    >>> fingerprint("synthetic")
    {}
    """
    if source == "synthetic":
        return {}
    folder = Path(source)
    items = items_file(folder)
    if items is not None and not joins_items(folder, read_schema(folder)):
        items = None
    return _digests(
        folder, lambda path: folder / path == items or _is_data(path)
    )


def _recorded(file: Path) -> dict[str, str]:
    return check_shape(read_json(file), dict[str, str], file)


def _digests(folder: Path, is_wanted: Callable[[Path], bool]) -> dict[str, str]:
    """The SHA-256 of each file of a folder that is wanted, by its path."""
    return {
        path.as_posix(): _digest(folder / path)
        for path in (
            file.relative_to(folder)
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        )
        if is_wanted(path)
    }


def _is_data(file: Path) -> bool:
    """Returns whether it is the schema, a split or a part of one."""
    if file.parts[0] == SCHEMA_FILE:
        return True
    return any(_is_of(file, split) for split in SPLITS)


def _is_of(file: Path, split: str) -> bool:
    """Returns whether it is a split, or a part of it."""
    return file.parts[0].partition(".")[0] == split and is_part(file)


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
