from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.shared_options import RunFolder
from recsys.serving.formats import DEFAULT_FORMAT
from recsys.serving.formats import FORMATS
from recsys.serving.formats import known_format


def export(
    run: RunFolder,
    out: Annotated[
        Path,
        typer.Option(help="Folder of versions: the model is written to OUT/1."),
    ],
    format: Annotated[
        str, typer.Option(help=f"Format: {' or '.join(FORMATS)}.")
    ] = DEFAULT_FORMAT,
    version: Annotated[
        bool,
        typer.Option(
            "--version/--no-version",
            help="Number the model, or write it to OUT itself.",
        ),
    ] = True,
    two_stage: Annotated[
        bool,
        typer.Option(
            "--two-stage",
            help="Export retrieval and ranking in one model. Needs a run "
            "with --retrieval.",
        ),
    ] = False,
    score: Annotated[
        str | None,
        typer.Option(
            help="Ranking formula of two stages, such as 'watch^0.7 * rating'."
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(help="Items to recommend, for two stages.")
    ] = 10,
    candidates: Annotated[
        int, typer.Option(help="Items to rank, for two stages.")
    ] = 100,
    index: Annotated[
        str,
        typer.Option(
            help="Index of two stages: brute-force, hnsw or ivf (extra faiss, "
            "for recsys serve), tfrs or scann (extra tfrs); with --format "
            "onnx, brute-force."
        ),
    ] = "brute-force",
    recall: Annotated[
        float,
        typer.Option(
            help="Share of the exact candidates that hnsw or ivf must find."
        ),
    ] = 0.99,
    rerank: Annotated[
        str | None,
        typer.Option(
            help="Make the items that two stages recommend differ: mmr or dpp."
        ),
    ] = None,
    diversity: Annotated[
        float,
        typer.Option(help="How much --rerank counts: 0 (not at all) to 1."),
    ] = 0.3,
    expert_weights: Annotated[
        bool,
        typer.Option(
            "--expert-weights",
            help="Also return expert weights, as TASK/experts.",
        ),
    ] = False,
    tables: Annotated[
        str,
        typer.Option(
            help="Embedding tables: float32, float16 (half the size) or int8 "
            "(a quarter)."
        ),
    ] = "float32",
) -> None:
    """Export the model of a run, verified without Keras."""
    if two_stage:
        with suppress(ValueError):  # Another process writes it then.
            start_backend("tensorflow")
        from recsys.api.export_two_stage import export_two_stage

        folder = export_two_stage(
            run,
            out,
            score,
            top,
            candidates,
            index,
            recall,
            version,
            tables,
            rerank,
            diversity,
            expert_weights=expert_weights,
            format=format,
        )
        _print_cost(folder)
        print(f"Two stages written to {folder}, and verified without Keras")
        return
    if rerank is not None:
        raise ValueError(
            "`rerank` must be left out unless two stages are exported, with "
            f"--two-stage. Received: rerank={rerank!r}"
        )
    form = known_format(format)
    with suppress(ValueError):  # `export` starts a process of its own then.
        start_backend(form.backend)
    from recsys.api.export import export_to

    folder, inputs = export_to(
        run, out, format, version, expert_weights, tables
    )
    for feature, input in inputs.items():
        if input != feature:
            print(f"Feature {feature!r} is input {input!r}")
    _print_cost(folder)
    print(f"{form.title} written to {folder}, and verified without Keras")


def _print_cost(folder: Path) -> None:
    from recsys.api.compact_export import described

    for line in described(folder):
        print(line)
