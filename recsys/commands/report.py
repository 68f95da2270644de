from pathlib import Path
from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.arguments import SparseOnly


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folders of sweeps, comparisons and runs."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the report.")],
    sparse_only: SparseOnly = True,
) -> None:
    """Report on sweeps, comparisons and runs: tables and figures."""
    start_backend(None)
    from recsys.api.report import report

    for title in report(folders, out, sparse_only):
        print(title)
    print(f"Written to {out / 'index.html'}")
