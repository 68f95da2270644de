import hashlib
from pathlib import Path

from recsys.data.split_dataset import SCHEMA_FILE
from recsys.data.split_dataset import SPLITS
from recsys.data.split_files import is_part


def fingerprint(source: str | Path) -> dict[str, str]:
    """Returns what tells the content of a data set from any other.

    Args:
        source: `"synthetic"`, or a data folder.

    Returns:
        For each file of the schema and the splits, by its path in the folder,
        the SHA-256 of its content. Nothing for the generated data set.

    Example:
    >>> fingerprint("synthetic")
    {}
    """
    if source == "synthetic":
        return {}
    folder = Path(source)
    return {
        file.relative_to(folder).as_posix(): _digest(file)
        for file in sorted(folder.rglob("*"))
        if file.is_file() and _is_data(file.relative_to(folder))
    }


def _is_data(file: Path) -> bool:
    """Returns whether it is the schema, a split or a part of one."""
    name = file.parts[0]
    return name == SCHEMA_FILE or (
        name.partition(".")[0] in SPLITS and is_part(file)
    )


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
