from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.arguments import RunFolder
from recsys.serving.formats import DEFAULT_FORMAT
from recsys.serving.formats import FORMATS
from recsys.serving.formats import known_format


def export(
    run: RunFolder,
    out: Annotated[
        Path,
        typer.Option(help="Folder of the versions: the model goes to OUT/1."),
    ],
    format: Annotated[
        str, typer.Option(help=f"{' or '.join(FORMATS)}.")
    ] = DEFAULT_FORMAT,
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
        str,
        typer.Option(
            help="Of the two stages: brute-force, hnsw or ivf (extra faiss, "
            "for recsys serve), or scann."
        ),
    ] = "brute-force",
    recall: Annotated[
        float,
        typer.Option(
            help="Share of the best candidates that hnsw or ivf has to find."
        ),
    ] = 0.99,
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
        from recsys.api.export_two_stage import export_two_stage

        folder = export_two_stage(
            run, out, score, top, candidates, index, recall, version
        )
        print(f"Two stages written to {folder}, and verified without Keras")
        return
    form = known_format(format)
    with suppress(ValueError):  # `export` starts a process of its own then.
        start_backend(form.backend)
    from recsys.api.export import export_to

    folder, inputs = export_to(run, out, format, version, expert_weights)
    for feature, input in inputs.items():
        if input != feature:
            print(f"Feature {feature!r} is the input {input!r}")
    print(f"{form.title} written to {folder}, and verified without Keras")
