from pathlib import Path
from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.arguments import Backend
from recsys.commands.arguments import Data
from recsys.commands.metrics_table import print_metrics
from recsys.commands.options import named_values


def baseline(
    data: Data,
    model: Annotated[
        str,
        typer.Option(
            help="Of retrieval: popular, item-knn, ease, ials or mf; of "
            "ranking: bias or gbdt."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Run folder: new or empty.")],
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Hyperparameter of the model, such as lambda=250; chosen on "
            "the validation split unless given.",
        ),
    ] = None,
    retrieval_label: Annotated[
        str | None,
        typer.Option(
            help="Binary task whose label is 1 in the rows that retrieval is "
            'fitted on and measured by, or "all"; the first one unless given.'
        ),
    ] = None,
    exclude_seen: Annotated[
        bool,
        typer.Option(
            "--exclude-seen/--include-seen",
            help="Whether what a user has had is left out where retrieval is "
            "measured.",
        ),
    ] = True,
    exclude_seen_targets: Annotated[
        bool,
        typer.Option(
            "--exclude-seen-targets",
            help="Leave it out even where it is the target, which then is not "
            "found.",
        ),
    ] = False,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit",
            help="Fit retrieval again on the training and the validation "
            "split before the test.",
        ),
    ] = False,
    metrics_k: Annotated[
        int,
        typer.Option(help="Items, or rows of a group, that metrics look at."),
    ] = 10,
    seed: Annotated[int, typer.Option(help="Seed of what is drawn.")] = 0,
    backend: Backend = None,
) -> None:
    """Fit a simple, exact model to compare trained ones with."""
    given = named_values("option", list(option or []))
    start_backend(backend)
    from recsys.api.baseline import baseline

    metrics = baseline(
        {
            "data": data,
            "model": model,
            "out": out,
            "options": given,
            "retrieval_label": retrieval_label,
            "exclude_seen": exclude_seen,
            "exclude_seen_targets": exclude_seen_targets,
            "refit": refit,
            "metrics_k": metrics_k,
            "seed": seed,
        }
    )
    print_metrics(metrics)
    print(f"Model, trials and metrics are in {out}")
