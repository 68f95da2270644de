import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextlib import suppress
from pathlib import Path

from filelock import FileLock
from filelock import Timeout

from recsys.errors import RunError
from recsys.files.atomic import remove_unfinished
from recsys.files.file_names import short_name

_LONGEST = 200  # Bytes of the output's name in that of the lock.


@contextmanager
def sole_writer(out: str | Path, wait: float = 0.0) -> Iterator[None]:
    """Keeps all others from writing to an output for as long as it lasts.

    The lock is a file beside the output, `.<name>.lock`, a very long name
    shortened, which goes when the lock does. The system releases the lock of a
    process that dies; the file that such a process leaves locks nothing, and
    goes with the next lock. A thread that holds the lock may take it again.

    Args:
        out: The file or folder to be written, which need not exist.
        wait: For how many seconds at most to wait for another writer.
            Defaults to 0: the second one ends at once.

    Raises:
        RunError: Another process, or thread, is writing to it.
    """
    path = Path(os.path.realpath(out))  # Links to themselves are no error.
    missing = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    file = _lock_file(path)
    lock = FileLock(file, is_singleton=True)
    if lock.is_locked:
        yield
        return
    try:
        lock.acquire(timeout=wait)
    except Timeout:
        raise RunError(
            f"{out}: expected an output that no other process is writing to. "
            "Received: one locked by another recsys process"
        ) from None
    try:
        remove_unfinished(path.parent, path.name)
        yield
    finally:
        # Before the release: afterwards the file may be another process's.
        file.unlink(missing_ok=True)
        lock.release()
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()  # Nothing was written.


def _lock_file(path: Path) -> Path:
    """Beside the output, or else among the system's temporary files."""
    if os.access(path.parent, os.W_OK):
        return path.with_name(f".{short_name(path.name, _LONGEST)}.lock")
    name = hashlib.sha256(os.fsencode(path)).hexdigest()
    return Path(tempfile.gettempdir(), f"recsys-{name}.lock")
