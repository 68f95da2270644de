from pathlib import Path
from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.options import given_fields
from recsys.commands.options import with_config_options
from recsys.commands.shared_options import SparseOnly
from recsys.config.train_config import TrainConfig
from recsys.errors.bounds import MOST_EXPERTS


@with_config_options
def tune(
    trials: Annotated[int, typer.Option(help="Maximum number of trials.")] = 20,
    tuner: Annotated[
        str,
        typer.Option(help="Search strategy: random, bayesian or hyperband."),
    ] = "random",
    space: Annotated[
        Path | None,
        typer.Option(
            help="YAML file with the search space. Default: the published "
            "space for the gate and the data set; for your own data, a small "
            "one."
        ),
    ] = None,
    paper: Annotated[
        str | None,
        typer.Option(
            help="Paper of the published space: comet, moesart or dselect-k. "
            "Default: the first of moesart, comet and dselect-k with this data "
            "set, for all gates."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Parallel trials.")] = 1,
    engine: Annotated[
        str,
        typer.Option(
            help="Engine of the trials: keras-tuner, or ray (extra ray), on "
            "the cluster at RAY_ADDRESS, an environment variable."
        ),
    ] = "keras-tuner",
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the sweep in --out.")
    ] = False,
    sparse_only: SparseOnly = True,
    **options: object,
) -> None:
    """Search for the configuration with the lowest validation loss.

    Options of `recsys train` apply to all trials.
    """
    settings = given_fields(options)
    # The space may say how many experts there are.
    fields = {"num_experts": MOST_EXPERTS} | settings
    start_backend(TrainConfig.from_mapping(fields).backend)
    from recsys.api.tune import tune
    from recsys.tuning.sweep import Sweep
    from recsys.tuning.sweep_summary import print_summary

    try:
        tune(settings, trials, tuner, space, workers, resume, paper, engine)
    except KeyboardInterrupt:
        print("\nTo continue: the same command with --resume")
        raise
    print_summary(Sweep(settings["out"]), sparse_only)
