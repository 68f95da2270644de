from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from keras_moe.metrics import balanced_experts
from keras_moe.metrics import load_balance
from recsys.data import Split
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.metrics import ExpertUse
from recsys.models.scorer import Scores
from recsys.tasks import RowRoles
from recsys.tasks import Task
from recsys.tasks.chains import labels_of
from recsys.tasks.row_roles import ALIKE


def measure(
    scores: Scores,
    rows: Split,
    tasks: Mapping[str, Task],
    task_weights: Mapping[str, float],
    target_scales: Mapping[str, float] | None = None,
    constants: Mapping[str, float | Sequence[float]] | None = None,
    roles: RowRoles = ALIKE,
) -> JsonObject:
    """Returns the exact metrics of a split, in float64, ready for JSON.

    Args:
        scores: What the model says about the rows.
        rows: The rows with their labels, one column per task, NaN where
            missing.
        tasks: The tasks with their kind.
        task_weights: Weight of each task's loss.
        target_scales: The model's, for the regression tasks that it
            standardises. None unless given.
        constants: The model's: for each task, what predicts without looking
            at a feature. None unless given.
        roles: What the rows count in the metrics of tasks, and what they
            belong to. Unless given, each counts once and belongs to nothing.
            "rows" and the numbers of experts are of rows, whatever they count.

    Returns:
        "loss", the weighted sum of the tasks' losses without regularizers, as
        they are trained on; "rows"; "tasks", for each what `measure` of its
        kind says of the rows that have a label; "experts_per_example", the
        mean of "experts_per_example_by_task"; where all tasks share their
        experts, "experts_evaluated", the mean of how many different ones the
        tasks of a row have together; with experts, "load_balance" and
        "balanced_experts" as in `keras_moe.metrics`, and both by task, where
        experts come in levels the means of the levels; "routing", for each
        task the "most_frequent_set", the "mutual_information" and the number
        of "dead_experts" of `ExpertUse`, where experts come in levels the
        means and the sum of the levels; where all tasks share their experts,
        "dead_experts", the number of those that are dead in each task. What
        cannot be computed, such as an AUC of one class or the experts of a
        shared bottom, is `None`.

        Where there are several tasks and each has an accuracy, "accuracy" is
        their mean. All metrics of a standardised task are in the label's own
        unit, but for its "standardized_loss", which is what counts in the
        weighted sum, as the "optimized_loss" of a binary task does that has
        a loss of its own.

        Each task with a constant has "constant": the same metrics of
        predicting it for every row. The "constant" of the whole has the
        weighted "loss", and the mean "accuracy", where every task has one.
        No constant has intervals.
    """
    constants = constants or {}
    labels = labels_of(rows, tasks)
    by_task = {
        task: _measure_task(
            kind,
            labels[task],
            scores.predictions[task],
            (target_scales or {}).get(task),
            constants.get(task),
            roles,
        )
        for task, kind in tasks.items()
    }
    experts = {
        task: float(np.mean(counts)) for task, counts in scores.experts.items()
    }
    whole: JsonObject = {
        **_overall(by_task, task_weights),
        "rows": len(rows),
        "tasks": by_task,
        "experts_per_example": float(np.mean(list(experts.values())))
        if experts
        else None,
        "experts_per_example_by_task": experts,
    }
    if scores.evaluated is not None:
        whole["experts_evaluated"] = float(np.mean(scores.evaluated))
    if scores.loads:
        whole |= _balance("load_balance", load_balance, scores.loads)
        whole |= _balance("balanced_experts", balanced_experts, scores.loads)
    if scores.use:
        whole["routing"] = routing_figures(scores.use)
        if scores.evaluated is not None:
            whole["dead_experts"] = _dead_in_all(scores.use)
    if constants.keys() >= by_task.keys():
        of_constants = {task: by_task[task]["constant"] for task in by_task}
        whole["constant"] = _overall(of_constants, task_weights)
    return whole


def _balance(
    name: str,
    measured: Callable[[np.ndarray], np.ndarray],
    loads: Mapping[str, Sequence[np.ndarray]],
) -> JsonObject:
    """Figures of the loads, as mean over tasks and by task."""
    by_task = {
        task: float(np.mean([measured(level) for level in levels]))
        for task, levels in loads.items()
    }
    mean = float(np.mean(list(by_task.values())))
    return {name: mean, f"{name}_by_task": by_task}


def routing_figures(use: Mapping[str, Sequence[ExpertUse]]) -> JsonObject:
    """Returns the "routing" of `measure`, figures of the use of experts.

    Args:
        use: By task, for each level of experts.
    """
    return {
        task: {
            "most_frequent_set": _mean(
                [level.most_frequent_set for level in levels]
            ),
            "mutual_information": _mean(
                [level.mutual_information for level in levels]
            ),
            "dead_experts": int(sum(level.dead.sum() for level in levels)),
        }
        for task, levels in use.items()
    }


def _dead_in_all(use: Mapping[str, Sequence[ExpertUse]]) -> int:
    """Number of experts that are dead in each task."""
    dead = [
        np.concatenate([level.dead for level in levels])
        for levels in use.values()
    ]
    return int(np.logical_and.reduce(dead).sum())


def _mean(levels: Sequence[float | None]) -> float | None:
    known = [value for value in levels if value is not None]
    return float(np.mean(known)) if len(known) == len(levels) else None


def trained_loss(metrics: JsonMapping) -> float | None:
    """Returns a task's loss as it counts in the weighted sum.

    Args:
        metrics: Those of one task, as `measure` returns them.
    """
    for name in ("standardized_loss", "optimized_loss"):
        if name in metrics:
            return metrics[name]
    return metrics["loss"]


def _overall(
    by_task: Mapping[str, JsonMapping], task_weights: Mapping[str, float]
) -> dict[str, float]:
    """The weighted loss, and the mean accuracy of several tasks that have one.

    A loss that cannot be computed counts nothing.
    """
    losses = {task: trained_loss(by_task[task]) for task in by_task}
    overall = {
        "loss": sum(
            task_weights[task] * loss
            for task, loss in losses.items()
            if loss is not None
        )
    }
    accuracies = [metrics.get("accuracy") for metrics in by_task.values()]
    known = [value for value in accuracies if value is not None]
    if len(accuracies) == len(known) > 1:
        overall["accuracy"] = float(np.mean(known))
    return overall


def _measure_task(
    kind: Task,
    labels: np.ndarray,
    predictions: np.ndarray,
    scale: float | None,
    constant: float | Sequence[float] | None,
    roles: RowRoles,
) -> JsonObject:
    labelled = ~np.isnan(labels)
    labels, predictions = labels[labelled], predictions[labelled]
    roles = roles.of_rows(labelled)
    metrics: JsonObject = kind.measure(labels, predictions, scale, roles)
    if constant is not None:
        shape = len(labels), *np.shape(constant)
        same = np.broadcast_to(np.asarray(constant, np.float64), shape)
        once = replace(roles, resamples=0)
        metrics["constant"] = kind.measure(labels, same, scale, once)
    return metrics
