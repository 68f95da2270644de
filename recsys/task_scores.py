from collections.abc import Mapping
from typing import Any

_NO_SCORES = ("loss", "standardized_loss", "constant")


def task_scores(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Returns the scores of the tasks on a split, without their losses.

    Args:
        metrics: What `recsys.training.measure.measure` returns.

    Returns:
        Scores by "<task> <name>", and "mean accuracy" where the metrics have
        one; `None` where one cannot be computed.

    Example:
    >>> watch = {"loss": 0.5, "auc": 0.8, "constant": {"auc": 0.5}}
    >>> task_scores({"tasks": {"watch": watch}})
    {'watch auc': 0.8}
    """
    scores = {
        f"{task} {name}": value
        for task, values in metrics["tasks"].items()
        for name, value in values.items()
        if name not in _NO_SCORES
    }
    if "accuracy" in metrics:
        scores["mean accuracy"] = metrics["accuracy"]
    return scores
