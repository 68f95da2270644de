from pathlib import Path
from typing import Annotated

import typer

from recsys.commands.arguments import Jobs
from recsys.commands.arguments import RunsFolder
from recsys.commands.arguments import SparseOnly


def rerun(
    sweep: Annotated[Path, typer.Option(help="Folder of the sweep.")],
    out: RunsFolder,
    seeds: Annotated[int, typer.Option(help="Repetitions, each new.")],
    top: Annotated[int, typer.Option(help="Best trials to repeat.")] = 1,
    jobs: Jobs = 1,
    sparse_only: SparseOnly = True,
    by: Annotated[
        str,
        typer.Option(
            help="What the best trials have the best of on the validation "
            "split: loss, or accuracy, the mean of the tasks'."
        ),
    ] = "loss",
) -> None:
    """Train the best trials of a sweep again, with several seeds."""
    from recsys import rerun
    from recsys.reporting.comparison_table import print_comparison

    print_comparison(rerun(sweep, out, seeds, top, jobs, sparse_only, by))
    print(f"Written to {out}: table.md, results.csv and a folder for each run")
