from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from recsys.reporting.markdown import markdown_table
from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.shelf_table import shelf_table

_INTRODUCTION = """\
# The shelf: public benchmarks with published figures

`recsys reproduce NAME --raw-dir DIR --out OUT` measures the rows marked "here"
(`--rows ROW` for one of them) on the files of a public benchmark, which its
user brings and which are checked by their checksums. This page is written from
its results by `python benchmarks/shelf_page.py`.

All items are ranked, and ties count their expected value. The hyperparameters
of simple models are chosen on the validation split, and the model is fitted
again on both splits, as in what is published of them. Those of a trained model
are the same in all benchmarks of a kind, its epoch is chosen on the validation
split, and with `refit` it is trained again on both for as many. The test split
is measured once. `recall` and `ndcg` are of rows with one target
each, `user_recall` (hits divided by targets) and `user_ndcg` (the best ranking
has 1) of users with several. Rows stand in the order of the last metric, the
mean over seeds, of the training or of splits that are drawn, with its standard
error; where a row has one seed, its place among close ones says nothing. CPU
minutes are of whole processes, without an accelerator.
"""
_FILES = ["file", "sha256, unpacked"]


def shelf_page(benchmarks: Mapping[str, Benchmark], folder: Path) -> str:
    """Returns the page of the shelf, in Markdown.

    Args:
        benchmarks: All benchmarks by name.
        folder: Has `NAME.csv`, a `results.csv` of `recsys reproduce`, for
            each benchmark that has been measured.
    """
    sections = [_INTRODUCTION]
    for name, benchmark in benchmarks.items():
        file = folder / f"{name}.csv"
        nothing = pd.DataFrame({"row": []})
        results = pd.read_csv(file) if file.is_file() else nothing
        sections.append(_section(name, benchmark, results))
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
