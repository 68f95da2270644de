from collections.abc import Sequence

from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.rules import PromotionRules
from recsys.measuring.promotion.scored_task import ScoredTask
from recsys.metrics.paired_difference import auc_estimate
from recsys.metrics.paired_difference import mean_estimate


def task_checks(
    tasks: Sequence[ScoredTask], rules: PromotionRules
) -> list[Check]:
    """Checks the losses of all tasks: none is worse, and some are better.

    That no loss rises needs no correction: a model passes only if all tasks
    do. That some loss falls does: each of T tasks has a T-th of the error.

    Args:
        tasks: The tasks, each with a row. None of them is no improvement.
        rules: What is allowed.

    Returns:
        A check of each task's loss and of its calibration, and one of the
        improvement.
    """
    checks = []
    better = []
    corrected = 1 - (1 - rules.confidence) / max(1, len(tasks))
    for task in tasks:
        old = mean_estimate(task.losses(task.old), task.weights)
        new = mean_estimate(task.losses(task.new), task.weights)
        change = new.change_from(old)
        ends = change.interval(rules.confidence, task.groups)
        _, upper = change.interval(corrected, task.groups)
        better.append(upper < -rules.least_improvement)
        checks.append(
            Check(
                "tasks",
                f"loss of {task.name}",
                ends[1] <= rules.most_loss_increase,
                change.value,
                rules.most_loss_increase,
                ends,
                {
                    "old": old.value,
                    "new": new.value,
                    "rows": len(task.labels),
                    **_auc(task, rules),
                },
            )
        )
        if task.kind == "binary":
            checks.append(calibration_check(task, "all rows", rules, 1))
    needed = {"none": 0, "any": 1, "all": max(1, len(tasks))}[rules.improved]
    checks.append(
        Check(
            "tasks",
            "tasks with a lower loss",
            sum(better) >= needed,
            sum(better),
            needed,
        )
    )
    return checks


def calibration_check(
    task: ScoredTask, rows: str, rules: PromotionRules, number: int
) -> Check:
    """Checks the mean prediction of the new model against the mean label.

    Args:
        task: A binary task, of the rows in question.
        rows: Their name.
        rules: What is allowed.
        number: How many such checks there are.

    Returns:
        The check, whose value is mean prediction / mean label - 1. It passes
        where no row has the label 1: nothing is known then.
    """
    labels = mean_estimate(task.labels, task.weights)
    predictions = mean_estimate(task.new, task.weights)
    most = rules.most_calibration_error
    value, ends = 0.0, None
    if labels.value > 0:
        error = predictions.relative_to(labels)
        confidence = 1 - (1 - rules.confidence) / number
        value, ends = error.value, error.interval(confidence, task.groups)
    passed = ends is None or (ends[0] <= most and ends[1] >= -most)
    details = {"rows": len(task.labels), "mean_label": labels.value}
    name = f"calibration of {task.name}, {rows}"
    return Check("calibration", name, passed, value, most, ends, details)


def _auc(task: ScoredTask, rules: PromotionRules) -> dict[str, object]:
    """The AUC of both models and their difference, of a binary task."""
    if task.kind != "binary":
        return {}
    labels = task.labels > 0
    old = auc_estimate(labels, task.old, task.weights)
    new = auc_estimate(labels, task.new, task.weights)
    if old is None or new is None:
        return {}
    difference = new.minus(old)
    return {
        "old_auc": old.value,
        "new_auc": new.value,
        "auc_difference": difference.value,
        "auc_interval": [*difference.interval(rules.confidence, task.groups)],
    }
