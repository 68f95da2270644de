from pathlib import Path
from typing import Annotated

import typer

from recsys.commands.arguments import Backend
from recsys.commands.arguments import Jobs
from recsys.commands.arguments import RunsFolder


def compare(
    comparison: Annotated[
        Path, typer.Argument(help="JSON file that says what to compare.")
    ],
    out: RunsFolder,
    data: Annotated[
        str | None, typer.Option(help="Instead of the data in the file.")
    ] = None,
    jobs: Jobs = 1,
    backend: Backend = None,
) -> None:
    """Train and test several models alike, and compare them."""
    from recsys import Comparison
    from recsys import compare
    from recsys.reporting.comparison_table import print_comparison

    fields = {"data": data, "backend": backend}
    given = {name: value for name, value in fields.items() if value is not None}
    results = compare(comparison, out, jobs, **given)
    print_comparison(results, Comparison.read(comparison).against)
    print(f"Written to {out}: table.md, results.csv and a folder for each run")
