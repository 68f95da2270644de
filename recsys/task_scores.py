from collections.abc import Mapping
from typing import Any

_NO_SCORES = ("loss", "standardized_loss", "constant")


def task_scores(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Returns the scores of the tasks on a split, without their losses.

    Args:
        metrics: What `recsys.training.measure.measure` returns.

    Returns:
        Scores by "<task> <name>"; `None` where one cannot be computed.

    Example:
    >>> watch = {"loss": 0.5, "auc": 0.8, "constant": {"auc": 0.5}}
    >>> task_scores({"tasks": {"watch": watch}})
    {'watch auc': 0.8}
    """
    return {
        f"{task} {name}": value
        for task, scores in metrics["tasks"].items()
        for name, value in scores.items()
        if name not in _NO_SCORES
    }
