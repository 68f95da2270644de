from pathlib import Path
from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.shared_options import Backend
from recsys.commands.shared_options import Data
from recsys.commands.shared_options import RunFolder
from recsys.commands.shared_options import SplitName
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import write_json

_TITLES = {
    "logged": "Logged policy",
    "ips": "IPS",
    "snips": "SNIPS",
    "doubly_robust": "Doubly robust",
}


def off_policy(
    run: RunFolder,
    data: Data,
    reward: Annotated[
        str, typer.Option(help="Task whose labels are the rewards.")
    ],
    score: Annotated[
        str | None,
        typer.Option(
            help="Ranking formula, such as 'watch^0.7 * rating'. Default: the "
            "prediction of --reward."
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(help="Rows of a request that the policy shows.")
    ] = 1,
    split: SplitName = "test",
    largest_weight: Annotated[
        float | None,
        typer.Option(
            help="Bound of the rows' weights: less variance, some bias. "
            "Default: none."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="JSON file for the values.")
    ] = None,
    backend: Backend = None,
) -> None:
    """Value a model by the log of another policy (propensities)."""
    start_backend(backend)
    from recsys.api.off_policy import off_policy

    report = off_policy(run, data, reward, score, top, split, largest_weight)
    if out is not None:
        write_json(out, report)
    _print(report)


def _print(report: JsonMapping) -> None:
    from recsys.reporting.terminal_table import print_table

    rows = []
    for name, estimate in report["values"].items():
        low, high = estimate["interval"] or (None, None)
        interval = "" if low is None else f"{low:.4f} to {high:.4f}"
        rows.append([_TITLES[name], f"{estimate['value']:.4f}", interval])
    header = [f"{report['reward']} per request", "Value", "95 % interval"]
    print_table(header, rows)
    print(
        f"{report['requests']:,} requests, {report['clusters']:,} independent; "
        f"{report['shown_rows']:,} shown rows, as precise as "
        f"{report['effective_rows']:,.0f} of equal weight"
    )
