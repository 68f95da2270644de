from pathlib import Path
from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.shared_options import SparseOnly


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folders of sweeps, comparisons and runs."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="New folder for the report. Default, of a single run: report "
            "in its folder, replaced."
        ),
    ] = None,
    sparse_only: SparseOnly = True,
    embeddings: Annotated[
        bool,
        typer.Option(
            "--embeddings",
            help="Draw embedded rows by UMAP, which takes many seconds.",
        ),
    ] = False,
) -> None:
    """Report on a run, or on sweeps, comparisons and many runs."""
    start_backend(None)
    from recsys.api.report import report

    for title in report(folders, out, sparse_only, embeddings):
        print(title)
    place = folders[0] / "report" if out is None else out
    print(f"Written to {place / 'index.html'}")
