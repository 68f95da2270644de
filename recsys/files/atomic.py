"""Files and folders that appear whole, or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextlib import suppress
from pathlib import Path

from filelock import FileLock
from filelock import Timeout

from recsys.files.file_names import short_name

# What names begin with that are not left behind but by a process that died.
UNFINISHED = ".unfinished-"
_LOCK = ".lock"
_LONGEST = 200  # Bytes of a name, beside what goes before and behind it.


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Writes a file or folder beside its place, then moves it there.

    Whoever looks at `path` sees what was there before or the whole of what is
    new, even if this process is killed. Processes that write to the same place
    do not get into each other's way: the last one to finish wins.

    Args:
        path: The place; a file that is there is replaced, a folder has to be
            empty.

    Yields:
        The path to write to, which has the same name.

    Raises:
        OSError: It cannot be written, with `path` where the error names no
            file, as that of a full disk.
    """
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_unfinished(path.parent, path.name)
    folder, lock = _create_folder(path)
    try:
        with naming_output(path):
            yield folder / path.name
            os.replace(folder / path.name, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


@contextmanager
def naming_output(path: Path) -> Iterator[None]:
    """Gives errors of the system that name no file, as of a full disk, one.

    Args:
        path: What is written.

    Raises:
        OSError: One that is caught, with the path.

    Example:
    >>> with naming_output(Path("out.csv")):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    ...
    OSError: [Errno 28] No space left on device: 'out.csv'
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        words = os.strerror(error.errno)
        raise OSError(error.errno, words, str(path)) from error


def remove_unfinished(folder: Path, name: str) -> None:
    """Removes what killed processes have left of an output beside its place.

    Args:
        folder: The folder of the output; it need not exist.
        name: The name of the output.
    """
    for unfinished in folder.glob(f"{UNFINISHED}*"):
        if unfinished.name.startswith(_prefix(name)):
            _remove_if_dead(unfinished)


def remove_all_unfinished(folder: Path) -> None:
    """Removes what killed processes have left in a folder and below."""
    for unfinished in list(folder.rglob(f"{UNFINISHED}*")):
        _remove_if_dead(unfinished)


def _remove_if_dead(unfinished: Path) -> None:
    if unfinished.is_symlink():  # Not made here.
        return
    # Who writes to it holds the lock, and the system releases a dead one's.
    with (
        suppress(Timeout, OSError),
        FileLock(unfinished / _LOCK, blocking=False),
    ):
        shutil.rmtree(unfinished)


def _prefix(name: str) -> str:
    """Prefix of the temporary folders of a file's writers."""
    return f"{UNFINISHED}{short_name(name, _LONGEST)}-"


def _create_folder(path: Path) -> tuple[Path, FileLock]:
    """Creates a folder of a new name beside a path, and locks it."""
    while True:
        name = tempfile.mkdtemp(prefix=_prefix(path.name), dir=path.parent)
        folder = Path(name)
        lock = FileLock(folder / _LOCK, blocking=False)
        # Until it is locked, another process may take it for left over.
        with suppress(Timeout, FileNotFoundError, FileExistsError):
            lock.acquire()
            return folder, lock
