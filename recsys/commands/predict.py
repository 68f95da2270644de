from pathlib import Path
from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.shared_options import Backend
from recsys.commands.shared_options import Budget
from recsys.commands.shared_options import RunFolder


def predict(
    run: RunFolder,
    input: Annotated[
        Path,
        typer.Option(help="Table with the features, or folder of its parts."),
    ],
    out: Annotated[Path, typer.Option(help="Table to write.")],
    budget: Budget = None,
    backend: Backend = None,
) -> None:
    """Predict all tasks for the rows of a Parquet or text file."""
    start_backend(backend)
    from recsys.api.predict import predict

    rows = predict(run, input, out, budget)
    print(f"{rows:,} predictions written to {out}")
