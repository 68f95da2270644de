from pathlib import Path

import pandas as pd

from recsys.errors import RunError
from recsys.reading import naming
from recsys.stages.compare import compare
from recsys.stages.comparison import Comparison
from recsys.tuning.sweep import Sweep


def rerun(
    sweep: str | Path,
    out: str | Path,
    seeds: int,
    top: int = 1,
    jobs: int = 1,
) -> pd.DataFrame:
    """Trains the best trials of a sweep again, with several seeds.

    The seeds are new: the loss of a trial that was chosen for its loss is too
    low on average. Called again after an interruption, it goes on where it
    was.

    Args:
        sweep: Folder of the sweep.
        out: Folder of the runs `trial-<name>/seed-<seed>`, of `results.csv`
            and of `table.md`, as `recsys.compare` writes them.
        seeds: How many times each trial is trained.
        top: How many trials, those with the lowest validation losses.
            Defaults to 1.
        jobs: Runs at a time. Defaults to 1.

    Returns:
        A row per run.

    Raises:
        RunError: There is no sweep or no completed trial in the folder, or
            some runs failed.
        ValueError: `seeds`, `top` or `jobs` is below 1.
    """
    for name, number in (("seeds", seeds), ("top", top), ("jobs", jobs)):
        if number < 1:
            raise ValueError(
                f"`{name}` must be at least 1. Received: {name}={number}"
            )
    folder = Sweep(sweep)
    used = folder.read_plan().fields.get("seed", 0)
    models = {
        # A trial without this field standardised nothing.
        f"trial-{record['trial']}": {
            "standardize_targets": False,
            **{
                name: value
                for name, value in record["config"].items()
                if name not in ("out", "seed")
            },
        }
        for record in folder.best(top)
    }
    if not models:
        raise RunError(
            f"{sweep}: expected a sweep with a completed trial. Received: none"
        )
    new = list(range(used + 1, used + 1 + seeds))
    with naming(folder.log.file):
        return compare(Comparison(models, seeds=new), out, jobs)
