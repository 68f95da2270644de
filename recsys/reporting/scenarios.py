from collections.abc import Sequence

from recsys.files.json_files import JsonMapping
from recsys.measuring.task_scores import task_scores
from recsys.reporting.section import Section
from recsys.reporting.section import Table
from recsys.reporting.trained import Trained
from recsys.reporting.trained import titled_best_runs


def scenarios(trained: Sequence[Trained]) -> Section | None:
    """Lists the metrics of each scenario, where data name a scenario.

    Args:
        trained: The finished trainings; the best of each model is listed.
    """
    tables = [
        _table(f"{title}: {name}", parts)
        for title, run in titled_best_runs(trained)
        for name, parts in run.metrics["test"].get("scenarios", {}).items()
    ]
    text = (
        "Rows, loss and scores of the test split in each scenario, for the "
        "best run of each model by validation loss."
    )
    return Section("Scenarios", text, tables) if tables else None


def _table(caption: str, parts: JsonMapping) -> Table:
    scores = {name: task_scores(metrics) for name, metrics in parts.items()}
    columns = list(
        dict.fromkeys(c for values in scores.values() for c in values)
    )
    rows = [
        [
            name,
            f"{metrics['rows']:,}",
            _shown(100 * metrics["loss"], 2),
            *(_shown(scores[name].get(column), 4) for column in columns),
        ]
        for name, metrics in parts.items()
    ]
    header = ["scenario", "rows", "test loss x 100", *columns]
    return Table(caption, header, rows)


def _shown(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
