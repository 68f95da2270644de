"""Files of the splits: by name or pattern, or a folder of parts."""

import os
import re
from collections.abc import Mapping
from collections.abc import Sequence
from glob import glob
from pathlib import Path

from recsys.data.formats.suffix import SUFFIXES
from recsys.data.formats.suffix import suffix_of
from recsys.errors import DataError
from recsys.errors.shown import shown

_WILDCARDS = frozenset("*?[")


def split_files(folder: str | Path, split: str) -> list[Path]:
    """Returns the files of a split in the order of its rows.

    A split is one file, such as `train.parquet`, or a folder of parts, such as
    `train` or what Spark calls `train.parquet`. Parts have one suffix and any
    names, whose numbers count as numbers: `part-10` comes after `part-9`.
    Names that begin with `_` or `.` are no parts.

    Args:
        folder: The data folder.
        split: Name of the split.

    Raises:
        DataError: There is no such file or folder, or more than one, or a
            folder holds something else than parts of one suffix.

    Example:
    >>> import tempfile
    >>> parts = Path(tempfile.mkdtemp(), "train")
    >>> parts.mkdir()
    >>> for name in ("part-10.csv", "part-9.csv", "_SUCCESS"):
    ...     (parts / name).touch()
    >>> [part.name for part in split_files(parts.parent, "train")]
    ['part-9.csv', 'part-10.csv']
    """
    names = [split + suffix for suffix in SUFFIXES]
    existing = [name for name in names if Path(folder, name).exists()]
    if Path(folder, split).is_dir():
        existing.insert(0, split)
    if len(existing) != 1:
        raise DataError.at(
            folder,
            f"one of the files {names}, or a folder {split!r} of parts",
            f"{existing or 'none of them'}",
        )
    return files_of(Path(folder, existing[0]))


def files_of(place: Path) -> list[Path]:
    """Returns a file, or the parts of a folder in the order of their rows.

    Raises:
        DataError: There is neither, or the folder holds something else than
            parts of one suffix.
    """
    if not place.exists():
        raise DataError.at(place, "a file", "none of that name")
    return _parts(place) if place.is_dir() else [place]


def is_part(file: Path) -> bool:
    """Returns whether a file in a folder of parts is one by its name.

    Other programs leave files beside the parts, such as `_SUCCESS`.
    """
    return not file.name.startswith(("_", "."))


def _parts(folder: Path) -> list[Path]:
    parts = [file for file in folder.iterdir() if is_part(file)]
    if not parts:
        raise DataError.at(folder, "at least one part", "an empty folder")
    parts.sort(key=lambda part: (_natural(part.name), part.name))
    for part in parts:
        if not part.exists():
            raise DataError.at(part, "a file", "a broken link")
        if part.is_dir() or not part.name.endswith(SUFFIXES):
            raise DataError.at(
                folder,
                f"only parts, files that end in one of {SUFFIXES}",
                f"{'a folder' if part.is_dir() else 'a file'} "
                f"{shown(part.name)}",
            )
    if len(suffixes := sorted({suffix_of(part) for part in parts})) > 1:
        raise DataError.at(
            folder, "parts of one suffix", f"parts of {suffixes}"
        )
    return parts


def _natural(name: str) -> list[str | int]:
    """Texts and the numbers between them, in turn."""
    pieces = re.split(r"(\d+)", name, flags=re.ASCII)
    return [
        int(piece) if index % 2 else piece for index, piece in enumerate(pieces)
    ]


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
