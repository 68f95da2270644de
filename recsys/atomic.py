import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Writes a file or folder beside its place, then moves it there.

    Whoever looks at `path` sees what was there before or the whole of what is
    new, even if this process is killed.

    Args:
        path: The place; a file that is there is replaced, a folder has to be
            empty.

    Yields:
        The path to write to, which has the same suffix.
    """
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".unfinished-{path.name}")
    _remove(unfinished)  # What a killed process has left.
    try:
        yield unfinished
        os.replace(unfinished, path)
    except BaseException:
        _remove(unfinished)
        raise


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
