from collections.abc import Callable
from pathlib import Path

from recsys.errors import RunError
from recsys.files.folders import check_vacant
from recsys.files.output_lock import sole_writer
from recsys.serving.version_labels import LABELS_FILE


def write_model(
    out: str | Path, version: bool, write: Callable[[Path], None]
) -> Path:
    """Writes a model where it belongs.

    Args:
        out: Folder of the versions, or of the model itself.
        version: Whether `out` has versions: the model becomes the next one.
        write: Writes the model to a folder that is new or empty.

    Returns:
        The folder of the model.

    Raises:
        RunError: The folder holds something else, or another process is
            writing to it.
    """
    out = Path(out)
    if not version:
        check_vacant(out)
        write(out)
        return out
    with sole_writer(out):
        folder = next_version(out)
        write(folder)
    return folder


def next_version(out: Path) -> Path:
    """Returns the folder of a model's next version, as servers count them.

    TensorFlow Serving watches such a folder and serves the version with the
    highest number. What is hidden there, such as a version that is still
    being written, is none, nor is the file of labels.

    Args:
        out: Folder of the versions; it need not exist.

    Raises:
        RunError: It holds something else, or is a file.
    """
    if out.exists() and not out.is_dir():
        raise _refusal(out, "which is a file")
    highest = 0
    for entry in sorted(out.iterdir() if out.exists() else []):
        if entry.name.startswith(".") or entry.name == LABELS_FILE:
            continue
        if not (entry.name.isascii() and entry.name.isdigit()):
            raise _refusal(out, f"which holds {entry.name!r}")
        highest = max(highest, int(entry.name))
    return out / str(highest + 1)


def _refusal(out: Path, problem: str) -> RunError:
    return RunError(
        "`out` must be a new folder, or one that only has versions, 1, 2 and "
        "so on (a model without a version needs a folder of its own). "
        f"Received: out={str(out)!r}, {problem}"
    )
