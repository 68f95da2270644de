import pandas as pd

from recsys.reporting.shelf.benchmark import Benchmark


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
        values = [f"{value:.4f}" for value in published.values]
        line = [published.model, *values, "", "", published.source]
        rows.append((published.values[-1], line))
    for name in results["row"].unique():
        runs = results[results["row"] == name]
        metrics = runs[benchmark.columns]
        values = [_mean(runs[column]) for column in benchmark.columns]
        alone = runs.loc[runs["device"] == "cpu", "cpu_minutes"]
        minutes = "" if alone.empty else f"{alone.mean():.1f}"
        count = str(len(runs))
        line = [f"{name} (here)", *values, count, minutes, ""]
        rows.append((float(metrics.mean().iloc[-1]), line))
    rows.sort(key=lambda row: row[0])
    header = ["model", *benchmark.columns, "seeds", "CPU minutes", "source"]
    return header, [line for _, line in rows]


def _mean(values: "pd.Series[float]") -> str:
    if len(values) == 1:
        return f"{values.iloc[0]:.4f}"
    error = values.std(ddof=1) / len(values) ** 0.5
    return f"{values.mean():.4f} ± {error:.4f}"
