from pathlib import Path
from typing import Annotated

import typer

from recsys.errors.shown import printable


def info(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
) -> None:
    """Show what a run is, its metrics, and what it beats."""
    from recsys.api.info import info
    from recsys.reporting.run.overview import scores_table
    from recsys.reporting.terminal_table import print_table

    summary = info(run)
    width = max(map(len, summary["facts"]))
    for name, fact in summary["facts"].items():
        print(f"{name:{width}}  {printable(fact)}")
    table = scores_table(summary["scores"])
    print_table(table.header, table.rows)
    for verdict in summary["verdicts"]:
        print(printable(verdict))
