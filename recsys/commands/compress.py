from pathlib import Path
from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.shared_options import Backend
from recsys.commands.shared_options import Data
from recsys.commands.shared_options import RunFolder


def compress(
    run: RunFolder,
    data: Data,
    out: Annotated[
        Path, typer.Option(help="Folder of the new run: new or empty.")
    ],
    experts: Annotated[
        int | None,
        typer.Option(
            help="Experts to keep: the most important ones on the "
            "validation split. Default: all."
        ),
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="Store experts as 8-bit integers.")
    ] = False,
    importance: Annotated[
        str,
        typer.Option(
            help="Experts to prune: those of little weight (weight), or of "
            "little weight times the norm of their outputs (output)."
        ),
    ] = "weight",
    backend: Backend = None,
) -> None:
    """Make a smaller model of a run, without training."""
    start_backend(backend)
    from recsys.api.compress import compress
    from recsys.commands.metrics_table import print_metrics

    metrics = compress(run, data, out, experts, int8, importance)
    print_metrics({split: metrics[split] for split in ("validation", "test")})
    print(f"The smaller model is in {out}")
