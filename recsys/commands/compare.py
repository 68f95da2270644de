from pathlib import Path
from typing import Annotated

import typer

from recsys.commands.shared_options import Backend
from recsys.commands.shared_options import Jobs
from recsys.commands.shared_options import RunsFolder


def compare(
    comparison: Annotated[
        Path,
        typer.Argument(
            help="JSON file with the models to compare, or experts: simple "
            "models, a model per task, a shared bottom and mixtures."
        ),
    ],
    out: RunsFolder,
    data: Annotated[
        str | None,
        typer.Option(help="Data to use instead of those in the file."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="Number of seeds. Default: the file's; 3 for experts."
        ),
    ] = None,
    jobs: Jobs = 1,
    backend: Backend = None,
) -> None:
    """Train and test several models under equal conditions."""
    from recsys import compare
    from recsys.api.compare import read_comparison
    from recsys.errors.shown import printable
    from recsys.reporting.comparison_table import print_comparison
    from recsys.reporting.comparison_table import verdicts

    fields = {"data": data, "backend": backend}
    options = {
        name: value for name, value in fields.items() if value is not None
    }
    results = compare(comparison, out, jobs, seeds, **options)
    against = read_comparison(comparison, options).against
    print_comparison(results, against)
    for line in verdicts(results, against):
        print(printable(line))
    print(f"Written to {out}: table.md, results.csv and a folder for each run")
