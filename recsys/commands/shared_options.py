"""Options shared by several commands."""

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
        help="Count only sparse trials. Gates that start dense: at most k "
        "experts per example on average (gumbel-softmax: 4). Static gates: "
        "binary selectors, too.",
    ),
]
RunsFolder = Annotated[
    Path, typer.Option("--out", help="Folder for runs and tables.")
]
Budget = Annotated[
    float | None,
    typer.Option(
        help="Experts per row on average, for a model trained with --gate "
        "budget: from 1 to all. Default: k of the run."
    ),
]
Jobs = Annotated[int, typer.Option(help="Parallel runs.")]
Backend = Annotated[
    str | None,
    typer.Option(help="Keras backend: tensorflow, jax or torch."),
]
