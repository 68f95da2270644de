from collections.abc import Iterator
from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.reporting.terminal_table import needed_width
from recsys.reporting.terminal_table import print_turned

_EXPERTS = "Experts/example"
_STANDARDIZED = (
    "The weighted total counts squared errors in standard deviations of the "
    "labels of "
)

# Characters of a number; a larger one is written with an exponent.
_WIDEST = 10


def print_metrics(metrics: Mapping[str, JsonMapping]) -> None:
    """Prints the metrics of splits: those of tasks, then those of retrieval.

    Tasks that were not trained, whose predictions are the constants, are left
    out beside a retrieval.
    """
    if not all("retrieval" in values for values in metrics.values()) or any(
        _differs_from_constant(scores)
        for values in metrics.values()
        for scores in values["tasks"].values()
    ):
        _print_tasks(metrics)
    for line in _retrieval_lines(metrics):
        print(line)


def by_scenario(metrics: JsonMapping, prefix: str = "") -> JsonObject:
    """Returns the metrics of scenarios as `print_metrics` takes splits.

    Args:
        metrics: Those of a split, as `recsys.measuring.measuring.Measuring`
            returns them.
        prefix: What stands in front of the name of each. Nothing unless given.

    Example:
    >>> metrics = {"scenarios": {"country": {"'fr'": {"loss": 0.5}}}}
    >>> by_scenario(metrics, "test, ")
    {"test, country: 'fr'": {'loss': 0.5}}
    """
    return {
        f"{prefix}{name}: {cut}": values
        for name, parts in metrics.get("scenarios", {}).items()
        for cut, values in parts.items()
    }


def _differs_from_constant(scores: JsonMapping) -> bool:
    """Whether a task's metrics are others than those of its constant."""
    constant = scores.get("constant", {})
    return any(
        constant.get(name) != scores[name]
        for name in scores
        if name != "constant"
    )


def _print_tasks(metrics: Mapping[str, JsonMapping]) -> None:
    """Prints the table of `metrics_table` in the width of the terminal.

    Where it is wider, there is a column for each task of a split instead, that
    of its constant beside it, and as many tables below each other as that
    takes. No number is cut.
    """
    table = metrics_table(metrics)
    if needed_width(table) <= Console().width:
        Console().print(table)
    else:
        titles = _titles(metrics)
        for split, values in metrics.items():
            print(f"{split}, {values['rows']:,} rows")
            print_turned(*_turned(values, titles))
        if table.caption:
            print(table.caption)


def _retrieval_lines(
    metrics: Mapping[str, JsonMapping],
) -> Iterator[str]:
    """Lines about the retrieval of each split."""
    for split, values in metrics.items():
        measured = dict(values.get("retrieval", {}))
        if measured:
            counted = ", ".join(
                f"{measured.pop(name):,} {name}"
                for name in ("rows", "users", "items")
                if name in measured
            )
            popular = measured.pop("popular", None)
            diversity = measured.pop("diversity", None)
            yield f"Retrieval, {split}: {_listed(measured)} ({counted})"
            if popular is not None:
                yield f"  popular: {_listed(popular)}"
            if diversity is not None:
                yield f"  diversity: {_listed(diversity)}"


def _listed(scores: JsonMapping) -> str:
    return ", ".join(
        f"{name} {_shown(value)}" for name, value in scores.items()
    )


def metrics_table(metrics: Mapping[str, JsonMapping]) -> Table:
    """Returns the metrics of one or more splits as a table for a terminal.

    Beside the weighted total stands the mean of the tasks' accuracies, where
    each has one. Below the metrics of each task, and of all, stand those of
    its constant: of predicting the mean label of the training split, or
    its share of each class, for every row. Intervals stand behind what they
    are of: `0.9120 [0.9010, 0.9230]`.

    Args:
        metrics: By split, what `recsys.measuring.measure.measure` returns.
    """
    table = Table("Split", "Task", box=SIMPLE_HEAD, collapse_padding=True)
    titles = _titles(metrics)
    names = list(titles)
    for title in (*titles.values(), _EXPERTS):
        table.add_column(title, justify="right")
    for split, values in metrics.items():
        experts = values["experts_per_example_by_task"]
        for task, scores in values["tasks"].items():
            table.add_row(
                split,
                task,
                *map(escape, _cells(scores, names)),
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
        task
        for values in metrics.values()
        for task, scores in values["tasks"].items()
        if "standardized_loss" in scores
    )
    if standardized:
        table.caption = f"{_STANDARDIZED}{', '.join(standardized)}."
    return table


def _titles(metrics: Mapping[str, JsonMapping]) -> dict[str, str]:
    """The titles of what is shown, of all that any task has, by name."""
    # Not before it is needed: pandas, which metrics use, takes its time.
    from recsys.metrics import TASK_METRICS

    measured = dict.fromkeys(
        name
        for values in metrics.values()
        for scores in values["tasks"].values()
        for name in scores
    )
    titled = (
        metric
        for of_kind in TASK_METRICS.values()
        for metric in of_kind
        if metric.title
    )
    return {"loss": "Loss"} | {
        name: f"{metric.title}{name.removeprefix(metric.name)}"
        for metric in titled
        for name in measured
        if metric.is_called(name)
    }


def _turned(
    values: JsonMapping, titles: Mapping[str, str]
) -> tuple[list[str], list[list[list[str]]]]:
    """The metrics of a split by column: a task's, or the weighted total's.

    Returns:
        The names of the lines, and the cells of each column, grouped with
        those of its constant.
    """
    total = _overall(values)
    if "constant" in values:
        total["constant"] = _overall(values["constant"])
    experts = values["experts_per_example_by_task"]
    parts = [
        *(
            (task, scores, experts.get(task))
            for task, scores in values["tasks"].items()
        ),
        ("weighted total", total, values["experts_per_example"]),
    ]
    names, groups = list(titles), []
    for title, scores, mean in parts:
        columns = [[title, *_cells(scores, names), _shown(mean, 2)]]
        if "constant" in scores:
            constants = _cells(scores["constant"], names)
            columns.append(["constant", *constants, ""])
        groups.append(columns)
    return ["Task", *titles.values(), _EXPERTS], groups


def _overall(values: JsonMapping) -> JsonObject:
    return {name: values.get(name) for name in ("loss", "accuracy")}


def _cells(scores: JsonMapping, names: list[str]) -> Iterator[str]:
    for name in names:
        cell = _shown(scores.get(name))
        if interval := scores.get(f"{name}_interval"):
            low, high = map(_shown, interval)
            cell = f"{cell} [{low}, {high}]"
        yield cell


def _shown(value: float | None, digits: int = 4) -> str:
    if value is None:
        return ""
    text = f"{value:.{digits}f}"
    return text if len(text) <= _WIDEST else f"{value:.6g}"
