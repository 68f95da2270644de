"""The lists of CelebA: attributes and split of each image."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from recsys.data.datasets.find_file import find_file
from recsys.data.formats.packed_file import read_packed
from recsys.errors import DataError
from recsys.errors.shown import shown

ATTRIBUTES, PARTITION = "list_attr_celeba.txt", "list_eval_partition.txt"


def read_attributes(raw_dir: Path, attributes: Sequence[str]) -> pd.DataFrame:
    """Reads some of the attributes of each image.

    Args:
        raw_dir: Folder of `list_attr_celeba.txt`: the number of images, the
            names of the attributes, and a line per image with 1 or -1 for each.
        attributes: Names of the wanted attributes.

    Returns:
        A column of 0 and 1 an attribute, indexed by the names of the files.

    Raises:
        DataError: The file is missing or broken, or there is no attribute of
            a name.
    """
    file = find_file(raw_dir, ATTRIBUTES)
    lines = _lines(file)
    names = lines[1].split() if len(lines) > 1 else []
    for name in attributes:
        if name not in names:
            raise DataError.at(file, f"an attribute {name!r}", shown(names))
    values = _table(lines[2:], len(names), {"1", "-1"}, file, first_line=3)
    if lines[0].strip() != str(len(values)):
        raise DataError.at(
            file,
            f"the number of images, {len(values)}",
            shown(lines[0]),
            line=1,
        )
    columns = {name: values[names.index(name)] == "1" for name in attributes}
    return pd.DataFrame(columns).astype("int64")


def read_partition(raw_dir: Path) -> "pd.Series[int]":
    """Reads which split each image belongs to.

    Args:
        raw_dir: Folder of `list_eval_partition.txt`: a line per image, 0 for
            training, 1 for validation, 2 for test.

    Returns:
        The numbers, indexed by the names of the files.

    Raises:
        DataError: The file is missing or broken.
    """
    file = find_file(raw_dir, PARTITION)
    values = _table(_lines(file), 1, {"0", "1", "2"}, file, first_line=1)
    return values[0].astype("int64")


def _lines(file: Path) -> list[str]:
    text = read_packed(file).decode("utf-8", errors="replace")
    return text.splitlines()


def _table(
    lines: Sequence[str],
    width: int,
    allowed: set[str],
    file: Path,
    first_line: int,
) -> pd.DataFrame:
    """The values after the name of each line's image, as texts."""
    rows = {}
    for number, line in enumerate(lines, first_line):
        name, *values = line.split() or [""]
        if len(values) != width or not allowed.issuperset(values):
            raise DataError.at(
                file,
                f"an image's name and {width} of {sorted(allowed)}",
                shown(line),
                line=number,
            )
        rows[name] = values
    return pd.DataFrame.from_dict(rows, orient="index")
