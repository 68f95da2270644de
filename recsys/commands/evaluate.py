from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.shared_options import Backend
from recsys.commands.shared_options import Budget
from recsys.commands.shared_options import Data
from recsys.commands.shared_options import RunFolder
from recsys.commands.shared_options import SplitName
from recsys.files.json_files import write_json
from recsys.files.output_lock import sole_writer


def evaluate(
    run: RunFolder,
    data: Data,
    split: SplitName = "test",
    by: Annotated[
        str | None, typer.Option(help="Feature to group the metrics by.")
    ] = None,
    metrics_k: Annotated[
        int | None,
        typer.Option(
            help="Cutoff k of metrics such as ndcg@k, in rows of a group. "
            "Default: as in training."
        ),
    ] = None,
    intervals: Annotated[
        int | None,
        typer.Option(
            help="Bootstrap samples (of groups, or of rows without groups) for "
            "95 % intervals of binary tasks' metrics. Default: no intervals."
        ),
    ] = None,
    budget: Budget = None,
    out: Annotated[
        Path | None, typer.Option(help="JSON file for the metrics.")
    ] = None,
    backend: Backend = None,
) -> None:
    """Evaluate the model of a run."""
    start_backend(backend)
    from recsys.api.evaluate import evaluate
    from recsys.commands.metrics_table import by_scenario
    from recsys.commands.metrics_table import print_metrics

    with nullcontext() if out is None else sole_writer(out):
        metrics = evaluate(run, data, split, by, metrics_k, intervals, budget)
        if out is not None:
            write_json(out, metrics)
    parts = metrics.get("by", {}).get(by, {})
    print_metrics(
        {split: metrics}
        | by_scenario(metrics)
        | {f"{by}: {cut}": parts[cut] for cut in parts}
    )
