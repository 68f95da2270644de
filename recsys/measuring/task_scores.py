"""Selection of metrics for outputs with room for few."""

from itertools import chain

from recsys.files.json_files import JsonMapping
from recsys.metrics import TASK_METRICS


def task_scores(metrics: JsonMapping) -> dict[str, float | None]:
    """Returns the scores of the tasks that tables of several runs show.

    They are those that `TASK_METRICS` says are compared; losses are none.

    Args:
        metrics: What `recsys.measuring.measure.measure` returns.

    Returns:
        Scores by "<task> <name>", those of retrieval by "retrieval <name>",
        and "mean accuracy" where the metrics have one; `None` where one
        cannot be computed.

    Example:
    >>> watch = {"loss": 0.5, "auc": 0.8, "ndcg@10": 0.7, "mrr": 0.4}
    >>> task_scores({"tasks": {"watch": watch}})
    {'watch auc': 0.8}
    """
    of_tasks = chain.from_iterable(TASK_METRICS.values())
    compared = [metric for metric in of_tasks if metric.compared]
    scores = {
        f"{task} {name}": value
        for task, values in metrics["tasks"].items()
        for name, value in values.items()
        if any(metric.is_called(name) for metric in compared)
    }
    for name, value in metrics.get("retrieval", {}).items():
        if "@" in name:
            scores[f"retrieval {name}"] = value
    if "accuracy" in metrics:
        scores["mean accuracy"] = metrics["accuracy"]
    return scores


def progress_scores(k: int) -> list[str]:
    """Returns the metrics in the line of an epoch, the most telling first.

    Args:
        k: How many positions of a ranking count.

    Example:
    >>> progress_scores(k=10)
    ['auc', 'accuracy', 'rmse']
    """
    of_tasks = chain.from_iterable(TASK_METRICS.values())
    shown = (metric for metric in of_tasks if metric.in_progress)
    return list(dict.fromkeys(metric.name_at(k) for metric in shown))
