from pathlib import Path
from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.options import named_values
from recsys.commands.shared_options import Backend
from recsys.commands.shared_options import Data


def baseline(
    data: Data,
    model: Annotated[
        str,
        typer.Option(
            help="Retrieval: popular, item-knn, ease, ials, mf or spectral. "
            "Ranking: bias, biased-mf, linear or gbdt."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Run folder: new or empty.")],
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Hyperparameter of the model, such as lambda=250. Default: "
            "chosen on the validation split.",
        ),
    ] = None,
    retrieval_label: Annotated[
        str | None,
        typer.Option(
            help="Binary task that selects the rows of retrieval, in fitting "
            'and in metrics: those with label 1; "all" selects all rows. '
            "Default: the first binary task."
        ),
    ] = None,
    exclude_seen: Annotated[
        bool,
        typer.Option(
            "--exclude-seen/--include-seen",
            help="Leave items of a user's training rows, and for the test "
            "split of the validation rows, out of the candidates of retrieval "
            "metrics, except the target.",
        ),
    ] = True,
    exclude_seen_targets: Annotated[
        bool,
        typer.Option(
            "--exclude-seen-targets",
            help="Leave out such a target as well, which then counts as not "
            "found.",
        ),
    ] = False,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit",
            help="Refit retrieval on training and validation splits before "
            "the test.",
        ),
    ] = False,
    task_weights: Annotated[
        list[str] | None,
        typer.Option(
            "--task-weight",
            metavar="TASK=WEIGHT",
            help="Weight of a task in the loss. Default: equal shares of what "
            "is left to 1.",
        ),
    ] = None,
    standardize_targets: Annotated[
        bool | None,
        typer.Option(
            "--standardize-targets/--no-standardize-targets",
            help="Count the losses of regression tasks in variances of the "
            "labels. Default: as in a training.",
        ),
    ] = None,
    metrics_k: Annotated[
        int,
        typer.Option(help="Cutoff k of metrics: items, or rows of a group."),
    ] = 10,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    backend: Backend = None,
) -> None:
    """Fit a simple, exact model for comparison with trained ones."""
    options = named_values("option", list(option or []))
    weights = named_values("task_weights", list(task_weights or []), float)
    start_backend(backend)
    from recsys.api.baseline import baseline
    from recsys.commands.metrics_table import print_metrics

    metrics = baseline(
        {
            "data": data,
            "model": model,
            "out": out,
            "options": options,
            "retrieval_label": retrieval_label,
            "exclude_seen": exclude_seen,
            "exclude_seen_targets": exclude_seen_targets,
            "refit": refit,
            "task_weights": weights,
            "standardize_targets": standardize_targets,
            "metrics_k": metrics_k,
            "seed": seed,
        }
    )
    print_metrics(metrics)
    print(f"Model, trials and metrics are in {out}")
