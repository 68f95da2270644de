"""What takes long to make, for all processes of pytest-xdist once."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def made_once(
    factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]
) -> Path:
    """A folder that the first process to ask for it makes.

    The others wait for it, and none may change it.

    Args:
        factory: The fixture `tmp_path_factory`.
        name: Of the folder, which no other may have.
        make: Gets its path, where nothing is yet.
    """
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # Of all of them.
    folder, done = root / name, root / f"{name}.done"
    with FileLock(root / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # Of one that failed.
            make(folder)
            done.touch()
    return folder
