from collections.abc import Mapping
from typing import Any

_LEFT_OUT = (
    "loss",
    "standardized_loss",
    "optimized_loss",
    "constant",
    # Of a binary task, whose AUCs and accuracy stand for it: a table of many
    # models has no room for more.
    "pr_auc",
    "ece",
    "normalized_entropy",
    "ndcg",
    "recall",
    "hit_rate",
    "mrr",
)


def task_scores(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Returns the scores of the tasks that tables of several runs show.

    Not their losses, and of a binary task the AUC, that within groups and the
    accuracy alone.

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
    scores = {
        f"{task} {name}": value
        for task, values in metrics["tasks"].items()
        for name, value in values.items()
        if name.partition("@")[0] not in _LEFT_OUT
    }
    for name, value in metrics.get("retrieval", {}).items():
        if "@" in name:
            scores[f"retrieval {name}"] = value
    if "accuracy" in metrics:
        scores["mean accuracy"] = metrics["accuracy"]
    return scores
