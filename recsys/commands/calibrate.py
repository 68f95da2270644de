from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.shared_options import Backend
from recsys.commands.shared_options import Data
from recsys.commands.shared_options import RunFolder


def calibrate(
    run: RunFolder,
    data: Data,
    method: Annotated[
        str,
        typer.Option(
            help="isotonic (any monotone map), platt (logistic of the "
            "logit) or beta (logistic of log p and log(1 - p))."
        ),
    ] = "isotonic",
    by: Annotated[
        str | None,
        typer.Option(
            help="Id, hash or bucket feature: a calibration for each value."
        ),
    ] = None,
    min_rows: Annotated[
        int,
        typer.Option(
            help="Validation rows that a value of --by needs; others have the "
            "calibration of all rows."
        ),
    ] = 200,
    backend: Backend = None,
) -> None:
    """Calibrate the probabilities of a run on its validation split."""
    start_backend(backend)
    from recsys.api.calibrate import calibrate
    from recsys.reporting.terminal_table import print_table

    report = calibrate(run, data, method, by, min_rows)
    rows = []
    for task, facts in report["tasks"].items():
        cells = [
            "" if facts[when][name] is None else f"{facts[when][name]:.4f}"
            for name in ("ece", "loss")
            for when in ("before", "after")
        ]
        count = [] if by is None else [f"{facts['values']:,}"]
        rows.append([task, *cells, *count])
    header = ["Test", "ECE before", "ECE after", "Loss before", "Loss after"]
    print_table([*header, *([] if by is None else [f"Values of {by}"])], rows)
    print(f"The calibrated model is in {run}")
