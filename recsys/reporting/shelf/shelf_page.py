from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from recsys.reporting.markdown import markdown_table
from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.defaults_table import defaults_table

_INTRODUCTION = """\
# The shelf: public benchmarks with published figures

`recsys reproduce NAME --raw-dir DIR --out OUT` measures the rows marked "here"
(`--rows ROW` for one of them) on the files of a public benchmark, which its
user brings and which are checked by their checksums. This page is written from
its results by `python benchmarks/shelf_page.py`.

All items are ranked, and ties count their expected value. The hyperparameters
of simple models are chosen on the validation split, and the model is fitted
again on both splits, as in what is published of them. Those of a trained model
are the same in all benchmarks of a kind, and its epoch is chosen on the
validation split. By default, and with `refit`, it is trained again on both for
as many; by default towers alone, and not the ranker beside them. The test split
is measured once. `recall` and `ndcg` are of rows with one target
each, `user_recall` (hits divided by targets) and `user_ndcg` (the best ranking
has 1) of users with several. Rows stand in the order of the last metric, the
mean over seeds, of the training or of splits that are drawn, with its standard
error; where a row has one seed, its place among close ones says nothing. CPU
minutes are of whole processes on CPUs alone; "accelerator" stands where all
seeds had one.
"""
_DEFAULTS = """\
## The defaults

What `recsys train --retrieval` reaches without further options, and its share
of the way from popular items to the best row here on the same files, in the
metric by which rows are ordered. On logs in the order of time, the defaults are
a transformer that reads the user's history. Where splits are drawn, all figures
are of the draws on which the defaults were measured.
"""
_FILES = ["file", "sha256, unpacked"]
_LARGE = 10  # From here on, a number has two decimals.


def shelf_page(benchmarks: Mapping[str, Benchmark], folder: Path) -> str:
    """Returns the page of the shelf, in Markdown.

    Args:
        benchmarks: All benchmarks by name.
        folder: Has `NAME.csv`, a `results.csv` of `recsys reproduce`, for
            each benchmark that has been measured.
    """
    results = {
        name: pd.read_csv(folder / f"{name}.csv")
        for name in benchmarks
        if (folder / f"{name}.csv").is_file()
    }
    nothing = pd.DataFrame({"row": []})
    table = markdown_table(*defaults_table(benchmarks, results))
    sections = [_INTRODUCTION, _DEFAULTS, f"{table}\n"]
    sections += [
        _section(name, benchmark, results.get(name, nothing))
        for name, benchmark in benchmarks.items()
    ]
    return "\n".join(sections)


def _section(name: str, benchmark: Benchmark, results: pd.DataFrame) -> str:
    files = [
        [file.shown, f"{file.sha256[:16]}..."]
        for file in benchmark.files.values()
    ]
    machine = _machine(results)
    command = f"recsys reproduce {name} --raw-dir DIR --out OUT"
    return "\n".join(
        [
            f"## {name}: {benchmark.title}",
            "",
            benchmark.protocol,
            "",
            f"```\n{command}\n```",
            "",
            markdown_table(*shelf_table(benchmark, results)),
            "",
            f"{benchmark.about} {machine}".strip(),
            "",
            *([markdown_table(_FILES, files), ""] if files else []),
        ]
    )


def _machine(results: pd.DataFrame) -> str:
    if results.empty:
        return "Nothing has been measured here yet."
    machines = results[["cores", "device"]].drop_duplicates()
    described = [
        f"{cores} cores" + ("" if device == "cpu" else f" and one {device}")
        for cores, device in sorted(machines.itertuples(index=False))
    ]
    first, last = results["date"].min(), results["date"].max()
    dates = [first] if first == last else [first, last]
    return (
        f"Measured here on {', or on '.join(described)}, {' to '.join(dates)}."
    )


def shelf_table(
    benchmark: Benchmark, results: pd.DataFrame
) -> tuple[list[str], list[list[str]]]:
    """Returns the header and the rows of a benchmark's table.

    Published rows and ours stand in one order, that of the last metric. Ours
    have the mean over seeds and its standard error. The CPU minutes are the
    mean over those runs that had no accelerator.

    Args:
        benchmark: The benchmark.
        results: What `recsys.reproduce` has returned.
    """
    rows: list[tuple[float, list[str]]] = []
    for published in benchmark.published:
        *_, last = published.values
        assert last is not None, "the order goes by it"
        values = [_shown(value) for value in published.values]
        line = [published.model, *values, "", "", published.source]
        rows.append((last, line))
    for name in results["row"].unique():
        runs = results[results["row"] == name]
        metrics = runs[benchmark.columns]
        values = [_mean(runs[column]) for column in benchmark.columns]
        line = [f"{name} (here)", *values, str(len(runs)), _minutes(runs), ""]
        rows.append((float(metrics.mean().iloc[-1]), line))
    rows.sort(key=lambda row: row[0], reverse=benchmark.lower_is_better)
    header = ["model", *benchmark.columns, "seeds", "CPU minutes", "source"]
    return header, [line for _, line in rows]


def _minutes(runs: pd.DataFrame) -> str:
    """The mean of the runs without an accelerator, or why there is none."""
    alone = runs.loc[runs["device"] == "cpu", "cpu_minutes"]
    if alone.empty:
        return "accelerator"
    return "not recorded" if alone.isna().all() else f"{alone.mean():.1f}"


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.{_digits(value)}f}"


def _digits(value: float) -> int:
    return 4 if value < _LARGE else 2


def _mean(values: "pd.Series[float]") -> str:
    if len(values) == 1:
        return _shown(values.iloc[0])
    error = values.std(ddof=1) / len(values) ** 0.5
    digits = _digits(values.mean())
    return f"{values.mean():.{digits}f} ± {error:.{digits}f}"
