from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_STANDARDIZED = (
    "The weighted total counts squared errors in standard deviations of the "
    "labels of "
)

# Characters of a number; a larger one is written with an exponent.
_WIDEST = 10


def print_metrics(metrics: Mapping[str, Mapping[str, Any]]) -> None:
    """Prints the table of `metrics_table`, as wide as its numbers need."""
    table = metrics_table(metrics)
    # Where it does not fit, a terminal breaks lines; rich would cut numbers.
    needed = Console(width=1000).measure(table).maximum
    Console(width=max(Console().width, needed)).print(table)
    for line in _retrieval_lines(metrics):
        print(line)


def _retrieval_lines(
    metrics: Mapping[str, Mapping[str, Any]],
) -> Iterator[str]:
    """What there is to say of the retrieval of each split."""
    for split, values in metrics.items():
        measured = dict(values.get("retrieval", {}))
        if measured:
            rows, items = measured.pop("rows"), measured.pop("items")
            shown = ", ".join(
                f"{name} {_shown(value)}" for name, value in measured.items()
            )
            counted = f"{rows:,} rows, {items:,} items"
            yield f"Retrieval, {split}: {shown} ({counted})"


def metrics_table(metrics: Mapping[str, Mapping[str, Any]]) -> Table:
    """Returns the metrics of one or more splits as a table for a terminal.

    Beside the weighted total stands the mean of the tasks' accuracies, where
    each has one. Below the metrics of each task, and of all, stand those of
    its constant: of predicting the mean label of the training split, or
    its share of each class, for every row. Intervals stand behind what they
    are of: `0.9120 [0.9010, 0.9230]`.

    Args:
        metrics: By split, what `recsys.training.measure.measure` returns.
    """
    table = Table("Split", "Task", box=SIMPLE_HEAD, collapse_padding=True)
    by_task = [
        (task, scores)
        for values in metrics.values()
        for task, scores in values["tasks"].items()
    ]
    measured = {name for _, scores in by_task for name in scores}
    titles = _titles()
    names = [name for name in titles if name in measured]
    for title in (*(titles[name] for name in names), "Experts/example"):
        table.add_column(title, justify="right")
    for split, values in metrics.items():
        experts = values["experts_per_example_by_task"]
        for task, scores in values["tasks"].items():
            table.add_row(
                split,
                task,
                *_cells(scores, names),
                _shown(experts.get(task), 2),
            )
            if "constant" in scores:
                cells = _cells(scores["constant"], names)
                table.add_row("", "  constant", *cells, style="dim")
        table.add_row(
            f"{values['rows']:,} rows",
            "weighted total",
            *_cells(_overall(values), names),
            _shown(values["experts_per_example"], 2),
            style="bold",
        )
        if "constant" in values:
            cells = _cells(_overall(values["constant"]), names)
            table.add_row("", "  constant", *cells, style="dim")
        table.add_section()
    standardized = dict.fromkeys(
        task for task, scores in by_task if "standardized_loss" in scores
    )
    if standardized:
        table.caption = f"{_STANDARDIZED}{', '.join(standardized)}."
    return table


def _titles() -> dict[str, str]:
    """The titles of what is shown of any task."""
    # Not before it is needed: pandas, which checks labels, takes its time.
    from recsys.tasks import TASKS

    titles = {"loss": "Loss"}
    for kind in TASKS.values():
        titles |= kind.scores
    return titles


def _overall(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values.get(name) for name in ("loss", "accuracy")}


def _cells(scores: Mapping[str, Any], names: list[str]) -> Iterator[str]:
    for name in names:
        cell = _shown(scores.get(name))
        if interval := scores.get(f"{name}_interval"):
            low, high = map(_shown, interval)
            cell = escape(f"{cell} [{low}, {high}]")
        yield cell


def _shown(value: float | None, digits: int = 4) -> str:
    if value is None:
        return ""
    text = f"{value:.{digits}f}"
    return text if len(text) <= _WIDEST else f"{value:.6g}"
