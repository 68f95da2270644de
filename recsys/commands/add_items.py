from pathlib import Path
from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.shared_options import Backend
from recsys.commands.shared_options import RunFolder


def add_items(
    run: RunFolder,
    items: Annotated[
        Path,
        typer.Option(
            help="Table of items with their features: .parquet, .csv or .tsv."
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder of the new run: new or empty.")
    ],
    backend: Backend = None,
) -> None:
    """Add items to a run that its training did not have."""
    start_backend(backend)
    from recsys.api.add_items import add_items
    from recsys.commands.metrics_table import print_metrics

    metrics = add_items(run, items, out)
    print_metrics({split: metrics[split] for split in ("validation", "test")})
    print(f"The model with all items is in {out}")
