"""The command line: it parses, calls the package and prints what came back."""

import json
import os
import sys
import warnings
from contextlib import nullcontext
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated
from typing import Any

import typer

from recsys.backend import start_backend
from recsys.config import TrainConfig
from recsys.config_file import GivenFields
from recsys.config_file import read_fields
from recsys.errors import FileError
from recsys.errors import RunError
from recsys.json_files import write_json
from recsys.metrics_table import print_metrics
from recsys.missing_package import what_to_install
from recsys.options import given_fields
from recsys.options import named_values
from recsys.options import with_config_options
from recsys.output_lock import sole_writer
from recsys.reading import naming
from recsys.run import Run
from recsys.shown import printable
from recsys.single_options import SingleOptions

# Typer carries its own copy of click in recent releases.
ClickException: Any = typer.BadParameter.__mro__[2]

_INTERRUPTED = 130

# Any other is an error of this package.
_REPORTED = (
    ClickException,
    ValueError,
    TypeError,
    RunError,
    OSError,
    MemoryError,
)

app = typer.Typer(
    help="Train, evaluate and export sparse multi-task recommenders.",
    epilog="With RECSYS_TRACEBACK=1 in the environment, errors show where "
    "they come from.",
    add_completion=False,
)
command = partial(app.command, cls=SingleOptions)

RunFolder = Annotated[Path, typer.Option("--run", help="Run folder.")]
Data = Annotated[str, typer.Option(help='Data folder, or "synthetic".')]
SparseOnly = Annotated[
    bool,
    typer.Option(
        "--sparse-only/--any-sparsity",
        help="Whether trials count only with at most k experts per example on "
        "average (gumbel-softmax: 4), where the gate starts dense.",
    ),
]
Backend = Annotated[
    str | None,
    typer.Option(help="Keras backend: tensorflow, jax or torch."),
]


def run(arguments: list[str]) -> int:
    """Runs the command line.

    Args:
        arguments: The words after `recsys`.

    Returns:
        0, or after an error, reported in one line: 2 where an argument is
        wrong, 1 where something else is; 130 after Ctrl-C.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            # Typer returns what Ctrl-C ends with.
            status = app(arguments, standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort) as interrupt:
        # Click takes the end of a file for the user's wish to end.
        if isinstance(interrupt.__cause__, EOFError):
            raise interrupt.__cause__ from None
        status = _INTERRUPTED
    except _REPORTED as error:
        if os.environ.get("RECSYS_TRACEBACK"):
            raise
        status = _report(error)
    except ModuleNotFoundError as error:
        if os.environ.get("RECSYS_TRACEBACK"):
            raise
        print("error:", what_to_install(error), file=sys.stderr)
        status = 1
    if status == _INTERRUPTED:
        print("Interrupted.", file=sys.stderr)
    return int(status)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Shows a warning in one line, without the line of code it comes from."""
    print("warning:", printable(str(message)), file=sys.stderr)


def _report(error: Exception) -> int:
    if isinstance(error, OSError) and error.filename:
        text = f"{error.filename}: {error.strerror}"
    elif isinstance(error, MemoryError):
        text = f"expected more memory. Received: {error or 'no more'}"
    else:
        # Click's errors explain themselves elsewhere.
        text = getattr(error, "format_message", error.__str__)()
    print("error:", printable(text), file=sys.stderr)
    of_arguments = (ClickException, ValueError, TypeError)
    wrong = isinstance(error, of_arguments) and not isinstance(error, FileError)
    return 2 if wrong else 1


@app.callback(invoke_without_command=True)
def help_unless_told(context: typer.Context) -> None:
    """Shows the help where no command is given."""
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


@command()
def prepare(
    name: Annotated[str, typer.Argument(help="Name of the data set.")],
    raw_dir: Annotated[Path, typer.Option(help="Folder of the download.")],
    out: Annotated[Path, typer.Option(help="Data folder to write.")],
    seed: Annotated[int, typer.Option(help="Seed of what is drawn.")] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Option of the data set."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="How splits are taken off a table: time, the latest rows for "
            "the test, or random. By time where one is named."
        ),
    ] = None,
    subsample: Annotated[
        str | None,
        typer.Option(help="published: the smaller MovieLens of the papers."),
    ] = None,
) -> None:
    """Turn a raw download into a data folder."""
    from recsys.data.prepare import prepare_dataset

    pairs = list(option or [])
    shorthands = {"split": split, "subsample": subsample}
    pairs += [
        f"{name}={value}"
        for name, value in shorthands.items()
        if value is not None
    ]
    given = named_values("option", pairs, repeats=True)
    dataset = prepare_dataset(name, raw_dir, out, given, seed)
    for part, summary in dataset.summary().items():
        for line in summary.lines(part):
            print(line)
    print(f"Written to {out}")


@command()
@with_config_options
def train(
    config: Annotated[
        Path | None,
        typer.Option(help="config.json of a run to repeat; options override."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out.")
    ] = False,
    **options: Any,
) -> None:
    """Train a model and fill a run folder."""
    from recsys.training.warm_start_fields import with_fields_of_start

    given = given_fields(options)
    if config is not None:
        given = read_fields(config, GivenFields) | given
    elif resume and "out" in given:
        config = Run(given["out"]).config
        given = read_fields(config) | given
    given = with_fields_of_start(given, resume)
    settings = TrainConfig.from_mapping(given)
    start_backend(settings.backend)
    from recsys.stages.train import train

    try:
        with naming(config):  # What does not fit the data.
            metrics = train(settings, resume)
    except KeyboardInterrupt:
        if Run(settings.out).model.is_file():
            print(f"\nThe best model so far is in {settings.out}.")
            print(f"To go on: recsys train --out {settings.out} --resume")
        raise
    splits = ("validation", "test")
    print_metrics({split: metrics[split] for split in splits})
    print(f"Model, metrics, history and plots are in {settings.out}")


@command()
def evaluate(
    run: RunFolder,
    data: Data,
    split: Annotated[
        str, typer.Option(help="train, validation or test.")
    ] = "test",
    by: Annotated[
        str | None, typer.Option(help="Feature by whose values to cut rows.")
    ] = None,
    metrics_k: Annotated[
        int | None,
        typer.Option(
            help="How many rows of a group ndcg@k, recall@k and hit_rate@k "
            "look at; as in training unless given."
        ),
    ] = None,
    intervals: Annotated[
        int | None,
        typer.Option(
            help="How often groups of rows, or rows where there are no groups, "
            "are drawn anew for 95 % intervals of the metrics of binary "
            "tasks; no intervals unless given."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="JSON file for the metrics.")
    ] = None,
    backend: Backend = None,
) -> None:
    """Evaluate the model of a run."""
    start_backend(backend)
    from recsys.stages.evaluate import evaluate

    with nullcontext() if out is None else sole_writer(out):
        metrics = evaluate(run, data, split, by, metrics_k, intervals)
        if out is not None:
            write_json(out, metrics)
    parts = metrics.get("by", {}).get(by, {})
    print_metrics(
        {split: metrics} | {f"{by}: {cut}": parts[cut] for cut in parts}
    )


@command()
def explain(
    run: RunFolder,
    data: Data,
    split: Annotated[
        str, typer.Option(help="train, validation or test.")
    ] = "test",
    repeats: Annotated[
        int, typer.Option(help="How often each feature is shuffled.")
    ] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the shuffling.")] = 0,
    backend: Backend = None,
) -> None:
    """Measure how much the model of a run relies on each feature."""
    start_backend(backend)
    from recsys.stages.explain import explain

    measured = explain(run, data, split, repeats, seed)
    print(
        f"By how much the weighted loss of {measured['rows']:,} rows grows "
        "where a feature is shuffled:"
    )
    for name, growth in measured["total"].items():
        mean, deviation = growth["mean"], growth["deviation"]
        print(f"  {mean:+.4f} ± {deviation:.4f}  {printable(name)}")
    print(f"Also by task: {run / 'importance.json'}, plots/importance.png")


@command()
def predict(
    run: RunFolder,
    input: Annotated[
        Path,
        typer.Option(help="Table with the features, or a folder of its parts."),
    ],
    out: Annotated[Path, typer.Option(help="Table to write.")],
    backend: Backend = None,
) -> None:
    """Predict every task for the rows of a Parquet or CSV file."""
    start_backend(backend)
    from recsys.stages.predict import predict

    rows = predict(run, input, out)
    print(f"{rows:,} predictions written to {out}")


@command()
def recommend(
    run: RunFolder,
    user: Annotated[str, typer.Option(help="Id of the user.")],
    top: Annotated[int, typer.Option(help="Items to recommend.")] = 10,
    score: Annotated[
        str | None,
        typer.Option(
            help="What items are ranked by, such as 'watch^0.7 * rating'; "
            "the task that retrieval was trained on unless given."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Data folder; that of the run unless given."),
    ] = None,
    exclude_seen: Annotated[
        bool,
        typer.Option(
            "--exclude-seen",
            help="Leave out what the user has had in the training split.",
        ),
    ] = False,
    candidates: Annotated[
        int, typer.Option(help="Items that are retrieved to be ranked.")
    ] = 100,
    feature: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Value of a feature instead of what the data know.",
        ),
    ] = None,
    backend: Backend = None,
) -> None:
    """Recommend items to a user: retrieve candidates and rank them."""
    given = named_values("feature", list(feature or []))
    start_backend(backend)
    from recsys.recommendation_table import print_recommendations
    from recsys.stages.recommend import recommend

    found = recommend(
        run, user, top, score, data, exclude_seen, candidates, given
    )
    print_recommendations(found)


@command()
def export(
    run: RunFolder,
    out: Annotated[
        Path,
        typer.Option(help="Folder of the versions: the model goes to OUT/1."),
    ],
    format: Annotated[str, typer.Option(help="tf_saved_model or onnx.")] = (
        "tf_saved_model"
    ),
    version: Annotated[
        bool,
        typer.Option(
            "--version/--no-version",
            help="Whether to number the model, or to write it to OUT itself.",
        ),
    ] = True,
    two_stage: Annotated[
        bool,
        typer.Option(
            "--two-stage",
            help="Retrieve items and rank them in one model, of a run with "
            "--retrieval. Needs the extra tfrs.",
        ),
    ] = False,
    score: Annotated[
        str | None,
        typer.Option(
            help="What the two stages rank by, such as 'watch^0.7 * rating'."
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(help="Items that the two stages recommend.")
    ] = 10,
    candidates: Annotated[
        int, typer.Option(help="Items that the two stages rank.")
    ] = 100,
    index: Annotated[
        str, typer.Option(help="Of the two stages: brute-force or scann.")
    ] = "brute-force",
    expert_weights: Annotated[
        bool,
        typer.Option(
            "--expert-weights",
            help="Also return the weights of the experts, as TASK/experts.",
        ),
    ] = False,
) -> None:
    """Export the model of a run, verified in a process without Keras."""
    if two_stage:
        # A process of its own has TensorFlow and its older Keras.
        with suppress(ValueError):
            start_backend("tensorflow")
        from recsys.stages.export_two_stage import export_two_stage

        folder = export_two_stage(
            run, out, score, top, candidates, index, version
        )
        print(f"Two stages written to {folder}, and verified without Keras")
        return
    from recsys.exporting import export_format

    form = export_format(format)
    with suppress(ValueError):  # `export` starts a process of its own then.
        start_backend(form.backend)
    from recsys.exporting.input_names import read_input_names
    from recsys.stages.export import export_to

    folder = export_to(run, out, format, version, expert_weights)
    for feature, input in read_input_names(folder).items():
        if input != feature:
            print(f"Feature {feature!r} is the input {input!r}")
    print(f"{form.title} written to {folder}, and verified without Keras")


@command()
def serve(
    model: Annotated[
        Path,
        typer.Option(help="Folder of the exported model, or of its versions."),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes a free one.")
    ] = 8501,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the model; that of the folder."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File of the token that requests must bear. Unless given, "
            "the environment variable RECSYS_SERVE_TOKEN may hold one."
        ),
    ] = None,
    max_batch_rows: Annotated[
        int, typer.Option(help="Most rows that are computed together.")
    ] = 1024,
    batch_wait_ms: Annotated[
        float, typer.Option(help="How long a request waits for others.")
    ] = 1.0,
    max_request_rows: Annotated[
        int, typer.Option(help="Most rows of a request.")
    ] = 8192,
    max_body_mib: Annotated[
        float, typer.Option(help="Most MiB of a request.")
    ] = 4.0,
    max_concurrency: Annotated[
        int, typer.Option(help="Most requests at a time.")
    ] = 128,
    request_timeout: Annotated[
        float, typer.Option(help="Seconds until a request is given up.")
    ] = 30.0,
    poll_seconds: Annotated[
        float, typer.Option(help="Seconds between looks for a new version.")
    ] = 1.0,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log each request.")
    ] = False,
) -> None:
    """Serve an exported model by HTTP, as TensorFlow Serving does."""
    from recsys.stages.serve import read_token
    from recsys.stages.serve import serve

    serve(
        model,
        host=host,
        port=port,
        name=name,
        token=read_token(token_file),
        max_batch_rows=max_batch_rows,
        batch_wait_ms=batch_wait_ms,
        max_request_rows=max_request_rows,
        max_body_mib=max_body_mib,
        max_concurrency=max_concurrency,
        request_timeout=request_timeout,
        poll_seconds=poll_seconds,
        access_log=access_log,
    )


@command()
def compare(
    comparison: Annotated[
        Path, typer.Argument(help="JSON file that says what to compare.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the runs and tables.")],
    data: Annotated[
        str | None, typer.Option(help="Instead of the data in the file.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Runs at a time.")] = 1,
    backend: Backend = None,
) -> None:
    """Train and test several models alike, with a table of the results."""
    from recsys import compare

    fields = {"data": data, "backend": backend}
    given = {name: value for name, value in fields.items() if value is not None}
    compare(comparison, out, jobs, **given)
    print((out / "table.md").read_text(encoding="utf-8"))
    print(f"Written to {out}")


@command()
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
    start_backend(TrainConfig.from_mapping(given).backend)
    from recsys.stages.tune import tune
    from recsys.tuning.sweep import Sweep

    try:
        records = tune(given, trials, tuner, space, workers, resume, paper)
    except KeyboardInterrupt:
        print("\nTo go on: the same command with --resume")
        raise
    failed = sum(record["status"] == "failed" for record in records)
    print(f"{len(records)} trials, {failed} of them failed, in {given['out']}")
    selection = Sweep(given["out"]).select(sparse_only)
    if selection.notice:
        print(selection.notice)
    for best in selection.trials[:1]:
        values = json.dumps(best["hyperparameters"])
        print(f"Best: trial {best['trial']} with {values}")


@command()
def rerun(
    sweep: Annotated[Path, typer.Option(help="Folder of the sweep.")],
    out: Annotated[Path, typer.Option(help="Folder of the runs and tables.")],
    seeds: Annotated[int, typer.Option(help="Repetitions, each new.")],
    top: Annotated[int, typer.Option(help="Best trials to repeat.")] = 1,
    jobs: Annotated[int, typer.Option(help="Runs at a time.")] = 1,
    sparse_only: SparseOnly = True,
) -> None:
    """Train the best trials of a sweep again, with several seeds."""
    from recsys import rerun

    rerun(sweep, out, seeds, top, jobs, sparse_only)
    print((out / "table.md").read_text(encoding="utf-8"))
    print(f"Written to {out}")


@command()
def report(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folders of sweeps, comparisons and runs."),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the report to write.")],
    sparse_only: SparseOnly = True,
) -> None:
    """Report on sweeps, comparisons and runs: tables and figures."""
    start_backend(None)
    from recsys.stages.report import report

    for title in report(folders, out, sparse_only):
        print(title)
    print(f"Written to {out / 'index.html'}")
