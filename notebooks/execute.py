"""Executes the notebooks in place: `python notebooks/execute.py [FILE ...]`.

A notebook runs in a temporary folder. What comes out is kept with a hash of
the code that it came from, which tells outputs that are out of date.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def source_hash(notebook: Any) -> str:
    """Returns a hash of the code of a notebook, whatever stands between it.

    Args:
        notebook: Node as `nbformat.read` returns it.
    """
    sources = [
        cell.source for cell in notebook.cells if cell.cell_type == "code"
    ]
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()


def execute(notebook: Any, folder: Path) -> None:
    """Runs all cells of a notebook, whose outputs it replaces.

    Args:
        notebook: Node as `nbformat.read` returns it.
        folder: Where the notebook runs.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell raised an exception.
    """
    metadata = dict(notebook.metadata)
    NotebookClient(
        notebook,
        timeout=1800,
        kernel_name="python3",
        resources={"metadata": {"path": folder}},
        record_timing=False,
        coalesce_streams=True,
        # What native code logs while it starts differs between machines.
        extra_arguments=["--IPKernelApp.capture_fd_output=False"],
    ).execute()
    # Without the versions that the kernel adds.
    metadata["executed_source"] = source_hash(notebook)
    notebook.metadata = metadata


def main(files: list[Path]) -> None:
    """Executes notebooks and writes them where they were read.

    Args:
        files: The notebooks.
    """
    for file in files:
        notebook = nbformat.read(file, as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            execute(notebook, Path(folder))
        nbformat.write(notebook, file)


if __name__ == "__main__":
    main(list(map(Path, sys.argv[1:])) or sorted(FOLDER.glob("*.ipynb")))
