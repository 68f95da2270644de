"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

RunFolder = Annotated[Path, typer.Option("--run", help="Run folder.")]
Data = Annotated[str, typer.Option(help='Data folder, or "synthetic".')]
SplitName = Annotated[str, typer.Option(help="train, validation or test.")]
SparseOnly = Annotated[
    bool,
    typer.Option(
        "--sparse-only/--any-sparsity",
        help="Whether trials count only with at most k experts per example on "
        "average (gumbel-softmax: 4), where the gate starts dense, and, where "
        "it is static, with binary selectors.",
    ),
]
RunsFolder = Annotated[
    Path, typer.Option("--out", help="Folder of the runs and tables.")
]
Jobs = Annotated[int, typer.Option(help="Runs at a time.")]
Backend = Annotated[
    str | None,
    typer.Option(help="Keras backend: tensorflow, jax or torch."),
]
