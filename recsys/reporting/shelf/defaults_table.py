from collections.abc import Mapping

import pandas as pd

from recsys.reporting.shelf.benchmark import Benchmark

_HEADER = [
    *("benchmark", "metric", "popular", "defaults"),
    *("best here", "its row", "of the way", "seeds"),
]
# Fields that say what is measured, and not how it is trained.
_PROTOCOL = ("retrieval_label", "retrieval_exclude_seen_targets")


def defaults_table(
    benchmarks: Mapping[str, Benchmark], results: Mapping[str, pd.DataFrame]
) -> tuple[list[str], list[list[str]]]:
    """Returns how far the defaults of `recsys train --retrieval` come.

    A line for each benchmark of retrieval: the last metric of popular items,
    of the defaults and of the best row of ours, and what share of the way from
    the first to the last the defaults come. All are means over seeds; where
    splits are drawn, over those draws that the defaults were measured on, and
    the best row is one that was measured on all of them.

    Args:
        benchmarks: All benchmarks by name.
        results: What `recsys.reproduce` has returned for those that have been
            measured, by name.

    Returns:
        The header and the lines.
    """
    lines = [
        [name, *_cells(benchmark, results[name])]
        for name, benchmark in benchmarks.items()
        if benchmark.measured == "retrieval" and name in results
    ]
    return _HEADER, lines


def default_row(benchmark: Benchmark) -> str | None:
    """Returns the row of `recsys train --retrieval` without further options.

    Args:
        benchmark: The benchmark. Which ratings and which targets count
            (`retrieval_label`, `retrieval_exclude_seen_targets`) is a part of
            its protocol, and no further option.

    Returns:
        The name of the row, `None` if the benchmark has none.
    """
    for setting in benchmark.settings:
        protocol = {
            name: setting.fields[name]
            for name in _PROTOCOL
            if name in setting.fields
        }
        defaults = {"retrieval": True, **protocol}
        if setting.command == "train" and setting.fields == defaults:
            return setting.name
    return None


def _cells(benchmark: Benchmark, results: pd.DataFrame) -> list[str]:
    metric = benchmark.columns[-1]
    defaults = results[results["row"] == default_row(benchmark)]
    if benchmark.draws > 1 and not defaults.empty:
        results = _on_draws(results, defaults["seed"])
    means = results.groupby("row")[metric].mean()
    popular, best = means["popular"], means.max()
    first = [metric, f"{popular:.4f}"]
    highest = [f"{best:.4f}", str(means.idxmax())]
    if defaults.empty:
        return [*first, "not measured", *highest, "", ""]
    reached = defaults[metric].mean()
    way = 100 * (reached - popular) / (best - popular)
    seeds = str(len(defaults))
    return [*first, f"{reached:.4f}", *highest, f"{way:.0f} %", seeds]


def _on_draws(results: pd.DataFrame, draws: "pd.Series[int]") -> pd.DataFrame:
    """Returns the results on some draws, of the rows that have all of them."""
    shared = results[results["seed"].isin(draws)]
    return shared.groupby("row").filter(lambda runs: len(runs) == len(draws))
