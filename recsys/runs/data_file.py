"""`data.json`: which data a run or a sweep was started with."""

from pathlib import Path

from recsys.errors import RunError
from recsys.errors.shapes import check_shape
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json
from recsys.runs.fingerprint import fingerprint


def write_data(file: Path, source: str) -> None:
    """Writes the fingerprint of a data set.

    Args:
        file: The file to write.
        source: As in `recsys.runs.fingerprint.fingerprint`.
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
    was, now = (
        check_shape(read_json(file), dict[str, str], file),
        fingerprint(source),
    )
    names = sorted(was.keys() | now.keys())
    changed = [name for name in names if was.get(name) != now.get(name)]
    if changed:
        raise RunError(
            f"{file.parent}: expected the data of its start. "
            f"Received: other data; changed: {', '.join(changed)}"
        )
