import warnings
from pathlib import Path

import pandas as pd

from recsys.api.compare import compare
from recsys.errors import RunError
from recsys.errors.bounds import check_count
from recsys.errors.reading import naming
from recsys.reporting.comparison import Comparison
from recsys.tuning.sweep import Sweep


def rerun(
    sweep: str | Path,
    out: str | Path,
    seeds: int,
    top: int = 1,
    jobs: int = 1,
    sparse_only: bool = True,
    by: str = "loss",
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
        top: How many trials, those that are the best on the validation
            split. Defaults to 1.
        jobs: Runs at a time. Defaults to 1.
        sparse_only: Boolean, whether to leave out the trials whose gate was
            to become sparse and has more than k experts per example on
            average (gumbel-softmax: more than 4), or static selectors that
            are not binary. A warning says how many. Defaults to `True`.
        by: What the best trials have the best of: "loss" (default), or
            "accuracy", the mean of the tasks', as DSelect-k is tuned on
            images.

    Returns:
        A row per run.

    Raises:
        RunError: There is no sweep in the folder, or no completed trial that
            may be chosen, or one without what it is to be chosen by, or some
            runs failed.
        ValueError: `seeds`, `top` or `jobs` is below 1, or `by` unknown.

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture of
        Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        sections 3.1.3 and 3.2, appendices D.1 and D.2 (which trials count),
        section 4.2 (`by`).
    """
    for name, number in (("seeds", seeds), ("top", top), ("jobs", jobs)):
        check_count(name, number)
    folder = Sweep(sweep)
    used = folder.read_plan().fields.get("seed", 0)
    selection = folder.select(sparse_only, by)
    if not selection.trials:
        raise RunError(
            f"{sweep}: expected a sweep with a completed trial that counts. "
            f"Received: none. {selection.notice}".rstrip()
        )
    if selection.notice:
        warnings.warn(selection.notice, stacklevel=2)
    models = {
        f"trial-{record['trial']}": {
            name: value
            for name, value in record["config"].items()
            if name not in ("out", "seed")
        }
        for record in selection.trials[:top]
    }
    new = list(range(used + 1, used + 1 + seeds))
    with naming(folder.log.file):
        return compare(Comparison(models, seeds=new), out, jobs)
