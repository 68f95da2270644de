import pandas as pd

from recsys.reporting.shelf.benchmark import Benchmark

_LARGE = 10  # From here on, a number has two decimals.


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
        alone = runs.loc[runs["device"] == "cpu", "cpu_minutes"]
        minutes = "" if alone.isna().all() else f"{alone.mean():.1f}"
        count = str(len(runs))
        line = [f"{name} (here)", *values, count, minutes, ""]
        rows.append((float(metrics.mean().iloc[-1]), line))
    rows.sort(key=lambda row: row[0], reverse=benchmark.lower_is_better)
    header = ["model", *benchmark.columns, "seeds", "CPU minutes", "source"]
    return header, [line for _, line in rows]


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
