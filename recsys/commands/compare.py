from pathlib import Path
from typing import Annotated

import typer

from recsys.commands.arguments import Backend
from recsys.commands.arguments import Jobs
from recsys.commands.arguments import RunsFolder


def compare(
    comparison: Annotated[
        Path, typer.Argument(help="JSON file with the models to compare.")
    ],
    out: RunsFolder,
    data: Annotated[
        str | None,
        typer.Option(help="Data to use instead of those in the file."),
    ] = None,
    jobs: Jobs = 1,
    backend: Backend = None,
) -> None:
    """Train and test several models under equal conditions."""
    from recsys import Comparison
    from recsys import compare
    from recsys.reporting.comparison_table import print_comparison

    fields = {"data": data, "backend": backend}
    options = {
        name: value for name, value in fields.items() if value is not None
    }
    results = compare(comparison, out, jobs, **options)
    print_comparison(results, Comparison.read(comparison).against)
    print(f"Written to {out}: table.md, results.csv and a folder for each run")
