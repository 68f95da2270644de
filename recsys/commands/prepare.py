from pathlib import Path
from typing import Annotated

import typer

from recsys.commands.options import named_values


def prepare(
    name: Annotated[str, typer.Argument(help="Name of the data set.")],
    raw_dir: Annotated[Path, typer.Option(help="Folder of the download.")],
    out: Annotated[Path, typer.Option(help="Data folder to write.")],
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Option of the data set."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Split of a table: time (the latest rows are the test) or "
            "random. Default: time if the table names one."
        ),
    ] = None,
    subsample: Annotated[
        str | None,
        typer.Option(help="published: the papers' smaller MovieLens."),
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
    options = named_values("option", pairs, repeats=True)
    dataset = prepare_dataset(name, raw_dir, out, options, seed)
    for part, summary in dataset.summary().items():
        for line in summary.lines(part):
            print(line)
    print(f"Written to {out}")
