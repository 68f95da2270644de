from pathlib import Path
from typing import Annotated

import typer

from recsys.commands.arguments import Backend


def compare(
    comparison: Annotated[
        Path, typer.Argument(help="JSON file that says what to compare.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the runs and tables.")],
    data: Annotated[
        str | None, typer.Option(help="Instead of the data in the file.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Runs at a time.")] = 1,
    backend: Backend = None,
) -> None:
    """Train and test several models alike, with a table of the results."""
    from recsys import compare

    fields = {"data": data, "backend": backend}
    given = {name: value for name, value in fields.items() if value is not None}
    compare(comparison, out, jobs, **given)
    print((out / "table.md").read_text(encoding="utf-8"))
    print(f"Written to {out}")
