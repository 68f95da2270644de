from pathlib import Path
from typing import Annotated

import typer

from recsys.commands.shared_options import Data


def describe(
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option(help="New folder for a page and description.json."),
    ] = None,
) -> None:
    """Look at data before training: counts, labels, warnings."""
    from recsys.api.describe import describe
    from recsys.reporting.data_description import features_table
    from recsys.reporting.data_description import labels_table
    from recsys.reporting.data_description import splits_table
    from recsys.reporting.data_description import warning_lines
    from recsys.reporting.terminal_table import print_table

    described = describe(data, out)
    for make in (splits_table, labels_table, features_table):
        table = make(described)
        if table.rows:
            print_table(table.header, table.rows)
    for line in warning_lines(described):
        print(f"warning: {line}")
    if not described["warnings"]:
        print("No warnings.")
    if out is not None:
        print(f"Written to {out / 'index.html'}")
