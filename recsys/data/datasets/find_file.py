from pathlib import Path

from recsys.errors import DataError


def find_file(raw_dir: Path, *names: str) -> Path:
    """Returns the first of several files that a download holds.

    Args:
        raw_dir: Folder of the download.
        *names: What the file may be called, paths in the folder.

    Raises:
        DataError: None of them is there.
    """
    if not raw_dir.is_dir():
        raise DataError.at(raw_dir, "the folder of the download", "no folder")
    for path in (raw_dir / name for name in names):
        if path.is_file():
            return path
    raise DataError.at(raw_dir, f"one of the files {names}", "none of them")
