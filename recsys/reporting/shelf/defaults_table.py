from collections.abc import Mapping

import pandas as pd

from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.benchmark import Setting

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

    A line for each benchmark of retrieval, and another one for each of its
    optional files with which the defaults were measured: the last metric of
    popular items, of the defaults and of the best row of ours, and what share
    of the way from the first to the last the defaults come. The best row has
    seen no file that the defaults have not. All are means over seeds; where
    splits are drawn, over those draws that the defaults were measured on, and
    the best row is one that was measured on all of them.

    Args:
        benchmarks: All benchmarks by name.
        results: What `recsys.reproduce` has returned for those that have been
            measured, by name.

    Returns:
        The header and the lines.
    """
    lines = []
    for name, benchmark in benchmarks.items():
        if benchmark.measured != "retrieval" or name not in results:
            continue
        for setting in default_rows(benchmark):
            runs = results[name]
            if setting.files and setting.name not in set(runs["row"]):
                continue
            first = ", with ".join([name, *setting.files])
            lines.append([first, *_cells(benchmark, runs, setting)])
    return _HEADER, lines


def default_rows(benchmark: Benchmark) -> list[Setting]:
    """Returns the rows of `recsys train --retrieval` without more options.

    Args:
        benchmark: The benchmark. Which ratings and which targets count
            (`retrieval_label`, `retrieval_exclude_seen_targets`) is a part of
            its protocol, and no further option.

    Returns:
        The rows, each with other files; none if the benchmark has none.
    """
    rows = []
    for setting in benchmark.settings:
        protocol = {
            name: setting.fields[name]
            for name in _PROTOCOL
            if name in setting.fields
        }
        defaults = {"retrieval": True, **protocol}
        if setting.command == "train" and setting.fields == defaults:
            rows.append(setting)
    return rows


def _cells(
    benchmark: Benchmark, results: pd.DataFrame, setting: Setting
) -> list[str]:
    metric = benchmark.columns[-1]
    seeing_more = [
        row.name
        for row in benchmark.settings
        if {*row.files} - {*setting.files}
    ]
    results = results[~results["row"].isin(seeing_more)]
    defaults = results[results["row"] == setting.name]
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
