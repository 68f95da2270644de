from pathlib import Path
from typing import Annotated
from typing import Any

import typer

from recsys.backend import start_backend
from recsys.commands.arguments import SparseOnly
from recsys.commands.options import given_fields
from recsys.commands.options import with_config_options
from recsys.config.train_config import TrainConfig
from recsys.errors.bounds import MOST_EXPERTS


@with_config_options
def tune(
    trials: Annotated[int, typer.Option(help="Most trials.")] = 20,
    tuner: Annotated[
        str, typer.Option(help="random, bayesian or hyperband.")
    ] = "random",
    space: Annotated[
        Path | None,
        typer.Option(
            help="YAML file of what is searched; unless given, the published "
            "space of the gate and the data set, or, for data of one's own, a "
            "small one."
        ),
    ] = None,
    paper: Annotated[
        str | None,
        typer.Option(
            help="Whose published space: comet, moesart or dselect-k. Unless "
            "given, the first of moesart, comet and dselect-k that has the "
            "data set, for all gates."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Trials at a time.")] = 1,
    engine: Annotated[
        str,
        typer.Option(
            help="What runs the trials: keras-tuner, or ray, on the cluster "
            "that the environment variable RAY_ADDRESS names (extra ray)."
        ),
    ] = "keras-tuner",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the sweep in --out.")
    ] = False,
    sparse_only: SparseOnly = True,
    **options: Any,
) -> None:
    """Search for the configuration with the lowest validation loss.

    Options of `recsys train` that are given hold for all trials.
    """
    given = given_fields(options)
    # The space may say how many experts there are.
    fields = {"num_experts": MOST_EXPERTS} | given
    start_backend(TrainConfig.from_mapping(fields).backend)
    from recsys.api.tune import tune
    from recsys.tuning.sweep import Sweep
    from recsys.tuning.sweep_summary import print_summary

    try:
        tune(given, trials, tuner, space, workers, resume, paper, engine)
    except KeyboardInterrupt:
        print("\nTo go on: the same command with --resume")
        raise
    print_summary(Sweep(given["out"]), sparse_only)
