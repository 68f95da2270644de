from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

_TITLES = {"loss": "Loss", "auc": "AUC", "accuracy": "Accuracy", "mse": "MSE"}


def metrics_table(metrics: Mapping[str, Mapping[str, Any]]) -> Table:
    """Returns the metrics of one or more splits as a table for a terminal.

    Args:
        metrics: By split, what `recsys.training.measure.measure` returns.
    """
    table = Table("Split", "Task", box=SIMPLE_HEAD)
    measured = {
        name
        for values in metrics.values()
        for scores in values["tasks"].values()
        for name in scores
    }
    names = [name for name in _TITLES if name in measured]
    for title in (*(_TITLES[name] for name in names), "Experts/example"):
        table.add_column(title, justify="right")
    for split, values in metrics.items():
        experts = values["experts_per_example_by_task"]
        for task, scores in values["tasks"].items():
            table.add_row(
                split,
                task,
                *(_shown(scores.get(name)) for name in names),
                _shown(experts.get(task), 2),
            )
        table.add_row(
            f"{values['rows']:,} rows",
            "weighted total",
            _shown(values["loss"]),
            *[""] * (len(names) - 1),
            _shown(values["experts_per_example"], 2),
            end_section=True,
            style="bold",
        )
    return table


def _shown(value: float | None, digits: int = 4) -> str:
    return "" if value is None else f"{value:.{digits}f}"
