from math import isnan
from pathlib import Path
from typing import Annotated

import typer

from recsys.backend import backend_to_start
from recsys.backend import start_backend
from recsys.commands.options import given_fields
from recsys.commands.options import with_config_options
from recsys.config.config_file import read_fields
from recsys.config.train_config import TrainConfig
from recsys.distribution.processes import join_processes
from recsys.errors.reading import naming
from recsys.files.folders import check_written
from recsys.training.kept_memory import keep_memory


@with_config_options
def train(
    config: Annotated[
        Path | None,
        typer.Option(
            help="config.json of a run to repeat; options override it."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out.")
    ] = False,
    by_part: Annotated[
        bool,
        typer.Option(
            "--by-part",
            help="Train on the parts of the training split, such as days, one "
            "after the other, each from the run before.",
        ),
    ] = False,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines",
            help="Fit simple models to the same data afterwards, and name the "
            "best.",
        ),
    ] = False,
    **options: object,
) -> None:
    """Train a model and write a run folder."""
    from recsys.runs.run import Run
    from recsys.training.warm_start_fields import with_fields_of_start

    fields = given_fields(options)
    is_recorded = resume and not by_part  # Each part has its own record.
    if config is not None:
        fields = read_fields(config) | fields
    elif is_recorded and "out" in fields:
        config = Run(fields["out"]).config
        check_written(config, "a run")
        fields = read_fields(config) | fields
    fields = with_fields_of_start(fields, is_recorded)
    settings = TrainConfig.from_mapping(fields)
    if settings.distribute != "none":
        # Before Keras starts JAX.
        join_processes(backend_to_start(settings.backend))
    keep_memory()
    start_backend(settings.backend)
    from recsys.api.train import train
    from recsys.api.train_by_part import run_of_part
    from recsys.api.train_by_part import train_by_part
    from recsys.commands.metrics_table import by_scenario
    from recsys.commands.metrics_table import print_metrics

    out = Path(settings.out)
    try:
        with naming(config):  # What does not fit the data.
            if by_part:
                by_name = train_by_part(settings, resume)
                last = next(reversed(by_name))
                metrics, out = by_name[last], run_of_part(out, last)
            else:
                metrics = train(settings, resume)
    except KeyboardInterrupt:
        if by_part:
            print("\nTo continue: the same command with --resume")
        elif Run(settings.out).model.is_file():
            print(f"\nThe best model so far is in {settings.out}.")
            print(f"To continue: recsys train --out {settings.out} --resume")
        raise
    if not metrics:
        return  # Another process writes the run.
    splits = ("validation", "test")
    print_metrics({split: metrics[split] for split in splits})
    if scenarios := by_scenario(metrics["test"], "test, "):
        print_metrics(scenarios)
    print(f"Model, metrics, history and plots are in {out}")
    if baselines:
        _print_baselines(out)


def _print_baselines(run: Path) -> None:
    """Fits simple models beside a run, and prints how they compare."""
    from recsys.api.fit_baselines import best_simple_models
    from recsys.api.fit_baselines import fit_baselines
    from recsys.reporting.terminal_table import print_table

    table = fit_baselines(run)
    shown = table.set_index("model").map(
        lambda value: "" if isnan(value) else f"{value:.4f}"
    )
    lines = [[name, *cells] for name, *cells in shown.itertuples()]
    print_table(list(table.columns), lines)
    for line in best_simple_models(table):
        print(line)
    print(f"Simple models are in {run / 'baselines'}")
