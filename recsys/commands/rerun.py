from pathlib import Path
from typing import Annotated

import typer

from recsys.commands.shared_options import Jobs
from recsys.commands.shared_options import RunsFolder
from recsys.commands.shared_options import SparseOnly


def rerun(
    sweep: Annotated[Path, typer.Option(help="Folder of the sweep.")],
    out: RunsFolder,
    seeds: Annotated[int, typer.Option(help="Number of new seeds per trial.")],
    top: Annotated[
        int, typer.Option(help="Number of best trials to train.")
    ] = 1,
    jobs: Jobs = 1,
    sparse_only: SparseOnly = True,
    by: Annotated[
        str,
        typer.Option(
            help="Criterion for the best trials, on the validation split: "
            "loss, or accuracy, averaged over tasks."
        ),
    ] = "loss",
) -> None:
    """Retrain the best trials of a sweep with several seeds."""
    from recsys import rerun
    from recsys.reporting.comparison_table import print_comparison

    print_comparison(rerun(sweep, out, seeds, top, jobs, sparse_only, by))
    print(f"Written to {out}: table.md, results.csv and a folder for each run")
