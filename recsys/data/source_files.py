"""The files that the splits of a data set are read from."""

import os
from collections.abc import Mapping
from collections.abc import Sequence
from glob import glob
from pathlib import Path

from recsys.data.split_files import files_of
from recsys.errors import DataError

_WILDCARDS = frozenset("*?[")


def source_files(
    folder: Path, named: Mapping[str, str | Sequence[str]]
) -> dict[str, list[Path]]:
    """Finds the files of each split.

    Args:
        folder: The folder that names are relative to.
        named: By split, a name or names of files, or patterns of names (`*`
            any characters, `?` one, `[0-9]` one of these).

    Returns:
        By split the files in the given order, those of a pattern in the order
        of their names, the parts of a folder in the order of `files_of`. A
        split without a name is left out.

    Raises:
        DataError: Nothing matches a pattern, or a file would be read twice: a
            row that is in two splits is no test.

    Example:
    >>> source_files(Path("logs"), {"train": ["a.csv", "b.csv"], "test": []})
    {'train': [PosixPath('logs/a.csv'), PosixPath('logs/b.csv')]}
    """
    files: dict[str, list[Path]] = {}
    owners: dict[str, str] = {}
    for split, patterns in named.items():
        names = [patterns] if isinstance(patterns, str) else patterns
        for file in (file for name in names for file in _found(folder, name)):
            # Of a link to itself, which `Path.resolve` refuses, too.
            place = os.path.realpath(file)
            if owner := owners.get(place):
                raise DataError.at(
                    file,
                    "each file once",
                    f"a file of {owner} and of {split}"
                    if owner != split
                    else f"a file that {split} names twice",
                )
            owners[place] = split
            files.setdefault(split, []).append(file)
    return files


def _found(folder: Path, name: str) -> list[Path]:
    place = folder / name
    if not _WILDCARDS & set(name) or place.exists():
        return files_of(place) if place.is_dir() else [place]
    paths = [folder / path for path in glob(name, root_dir=folder)]
    files = sorted(path for path in paths if path.is_file())
    if not files:
        raise DataError.at(folder, f"files {name!r}", "none of that name")
    return files
