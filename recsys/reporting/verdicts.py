from collections.abc import Mapping

import pandas as pd

from recsys.reporting.statistics import mean_and_error
from recsys.reporting.statistics import paired_differences

_FEWEST = 3  # Seeds, for a standard error that says something.


def verdicts(results: pd.DataFrame, against: Mapping[str, str]) -> list[str]:
    """Returns a sentence for each pair of models that was compared.

    A model is ahead where the mean of its losses minus the other's, seed by
    seed, is more than two standard errors below 0.

    Args:
        results: A row per run: "setting", "model", "seed" and "loss".
        against: By model, the one that its loss is compared with.

    Example:
    >>> losses = {"a": [0.40, 0.41, 0.42], "b": [0.42, 0.44, 0.45]}
    >>> results = pd.DataFrame(
    ...     [
    ...         {"setting": "", "model": model, "seed": seed, "loss": loss}
    ...         for model in losses
    ...         for seed, loss in enumerate(losses[model])
    ...     ]
    ... )
    >>> verdicts(results, {"a": "b"})
    ['a is ahead of b: loss x 100 -2.667 ± 0.333, 3 seeds.']
    """
    found = []
    for setting, rows in results.groupby("setting", sort=False):
        where = f"{setting!s}: " if setting else ""
        for model, rival in against.items():
            differences = paired_differences(
                rows[rows["model"] == model], rows[rows["model"] == rival]
            )
            if len(differences):
                found.append(where + _verdict(model, rival, differences))
    return found


def _verdict(model: str, rival: str, differences: "pd.Series[float]") -> str:
    count = len(differences)
    seeds = "1 seed" if count == 1 else f"{count} seeds"
    figures = f"loss x 100 {mean_and_error(100 * differences, 3)}, {seeds}."
    if count < _FEWEST:
        return f"{model} against {rival}, too few seeds for an order: {figures}"
    mean = differences.mean()
    bound = 2 * differences.std(ddof=1) / count**0.5
    relation = "level with"
    if abs(mean) > bound:
        relation = "ahead of" if mean < 0 else "behind"
    return f"{model} is {relation} {rival}: {figures}"
