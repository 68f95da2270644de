from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.shared_options import Backend
from recsys.commands.shared_options import Data
from recsys.commands.shared_options import RunFolder
from recsys.commands.shared_options import SplitName
from recsys.errors.shown import printable


def explain(
    run: RunFolder,
    data: Data,
    split: SplitName = "test",
    repeats: Annotated[
        int, typer.Option(help="Number of shuffles per feature.")
    ] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the shuffling.")] = 0,
    backend: Backend = None,
) -> None:
    """Report the permutation importance of each feature."""
    start_backend(backend)
    from recsys.api.explain import explain

    measured = explain(run, data, split, repeats, seed)
    print(
        f"Increase of the weighted loss of {measured['rows']:,} rows when a "
        "feature is shuffled:"
    )
    for name, growth in measured["total"].items():
        mean, deviation = growth["mean"], growth["deviation"]
        print(f"  {mean:+.4f} ± {deviation:.4f}  {printable(name)}")
    print(f"Also by task: {run / 'importance.json'}, plots/importance.png")
