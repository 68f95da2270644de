"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

RunFolder = Annotated[Path, typer.Option("--run", help="Run folder.")]
Data = Annotated[str, typer.Option(help='Data folder, or "synthetic".')]
SparseOnly = Annotated[
    bool,
    typer.Option(
        "--sparse-only/--any-sparsity",
        help="Whether trials count only with at most k experts per example on "
        "average (gumbel-softmax: 4), where the gate starts dense.",
    ),
]
Backend = Annotated[
    str | None,
    typer.Option(help="Keras backend: tensorflow, jax or torch."),
]
