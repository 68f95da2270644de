from collections.abc import Sequence
from pathlib import Path

from recsys.baselines.config import is_baseline
from recsys.baselines.config import read_baseline_config
from recsys.measuring.task_scores import task_scores
from recsys.reporting.section import Section
from recsys.reporting.section import Table
from recsys.runs.run import Run


def baseline_runs(folder: str | Path) -> list[Run]:
    """Returns the finished baselines below a folder.

    Args:
        folder: A run folder, or one with run folders in it.
    """
    runs = [Run(file.parent) for file in Path(folder).rglob("metrics.json")]
    return sorted(
        (run for run in runs if is_baseline(run.config) and run.is_finished),
        key=lambda run: run.folder,
    )


def baselines(runs: Sequence[Run]) -> Section | None:
    """Makes a table of the test metrics of baselines for each data set.

    Args:
        runs: Run folders of `recsys baseline`.
    """
    by_data: dict[str, list[Run]] = {}
    for run in runs:
        config = read_baseline_config(run.config)
        by_data.setdefault(Path(config.data).name, []).append(run)
    tables = [_table(data, data_runs) for data, data_runs in by_data.items()]
    text = (
        "Simple models, on the test split; the hyperparameters that are not "
        "given were chosen on the validation split. Retrieval is of all items "
        "of the catalogue; the models that retrieve predict the constants of "
        "the tasks."
    )
    return Section("Baselines", text, tables) if tables else None


def _table(data: str, runs: Sequence[Run]) -> Table:
    scores = {run: task_scores(run.read_metrics()["test"]) for run in runs}
    names = list(
        dict.fromkeys(name for values in scores.values() for name in values)
    )
    rows = []
    for run, values in scores.items():
        config = read_baseline_config(run.config)
        options = ", ".join(
            f"{name} {value:g}" for name, value in config.options.items()
        )
        seen = "left out" if config.exclude_seen else "candidates"
        if config.exclude_seen_targets:
            seen = "left out, targets as well"
        cells = [
            "" if values.get(name) is None else f"{values[name]:.4f}"
            for name in names
        ]
        retrieves = any(name.startswith("retrieval ") for name in values)
        rows.append([config.model, options, seen if retrieves else "", *cells])
    return Table(data, ["model", "options", "seen items", *names], rows)
