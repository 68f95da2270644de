from pathlib import Path
from typing import Annotated

import typer

from recsys.commands.shared_options import Backend


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="Name of the benchmark, such as ml-1m-loo; docs/shelf.md "
            "lists all."
        ),
    ],
    raw_dir: Annotated[Path, typer.Option(help="Folder of the download.")],
    out: Annotated[
        Path, typer.Option(help="Folder for data, runs and tables.")
    ],
    rows: Annotated[
        list[str] | None,
        typer.Option(
            help="Row to measure, such as EASE; can be repeated. Default: all "
            "rows."
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="Number of seeds per randomized row, or row on drawn splits. "
            "Default: the benchmark's."
        ),
    ] = None,
    backend: Backend = None,
) -> None:
    """Measure models on a public benchmark, beside published ones."""
    from recsys.api.reproduce import reproduce
    from recsys.reporting.shelf import BENCHMARKS
    from recsys.reporting.shelf.shelf_page import shelf_table
    from recsys.reporting.terminal_table import print_table

    results = reproduce(name, raw_dir, out, rows, seeds, backend)
    header, lines = shelf_table(BENCHMARKS[name], results)
    # Sources are on the page: a terminal has no room for them.
    print_table(header[:-1], [line[:-1] for line in lines])
    print(f"Written to {out}: results.csv, the data and a folder for each run")
