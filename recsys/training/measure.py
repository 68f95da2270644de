from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from recsys.data import Split
from recsys.models.scorer import Scores

# What Keras's cross-entropies keep probabilities away from 0 and 1.
_EPSILON = 1e-7


def measure(
    scores: Scores,
    rows: Split,
    tasks: Mapping[str, str],
    task_weights: Mapping[str, float],
) -> dict[str, Any]:
    """Returns the exact metrics of a split, in float64, ready for JSON.

    Args:
        scores: What the model says about the rows.
        rows: The rows with their labels, a column per task, NaN where missing.
        tasks: The tasks with their type, "binary", "regression" or
            "multiclass".
        task_weights: Weight of each task's loss.

    Returns:
        "loss", the weighted sum of the tasks' losses without regularisers;
        "rows"; "tasks", for each the "loss", a mean over the rows that have
        a label, with "auc", "mse" or "accuracy"; "experts_per_example", the
        mean of "experts_per_example_by_task". What cannot be computed, such as
        an AUC of one class or the experts of a shared bottom, is `None`.
    """
    by_task = {
        task: _measure_task(
            kind,
            rows[task].to_numpy(np.float64),
            scores.predictions[task],
        )
        for task, kind in tasks.items()
    }
    experts = {
        task: float(np.mean(counts)) for task, counts in scores.experts.items()
    }
    return {
        "loss": sum(
            task_weights[task] * metrics["loss"]
            for task, metrics in by_task.items()
            if metrics["loss"] is not None
        ),
        "rows": len(rows),
        "tasks": by_task,
        "experts_per_example": float(np.mean(list(experts.values())))
        if experts
        else None,
        "experts_per_example_by_task": experts,
    }


def _measure_task(
    kind: str, labels: Any, predictions: Any
) -> dict[str, float | None]:
    labelled = ~np.isnan(labels)
    labels, predictions = labels[labelled], predictions[labelled]
    return _MEASURES[kind](labels, predictions)


def _measure_binary(labels: Any, probabilities: Any) -> dict[str, float | None]:
    if not len(labels):
        return {"loss": None, "auc": None}
    certain = np.clip(probabilities, _EPSILON, 1 - _EPSILON)
    likelihood = np.where(labels == 1, certain, 1 - certain)
    one_class = labels.min() == labels.max()
    return {
        "loss": float(-np.log(likelihood).mean()),
        "auc": None
        if one_class
        else float(roc_auc_score(labels, probabilities)),
    }


def _measure_regression(
    labels: Any, predictions: Any
) -> dict[str, float | None]:
    if not len(labels):
        return {"loss": None, "mse": None}
    mse = float(np.square(labels - predictions).mean())
    return {"loss": mse, "mse": mse}


def _measure_multiclass(
    labels: Any, probabilities: Any
) -> dict[str, float | None]:
    if not len(labels):
        return {"loss": None, "accuracy": None}
    classes = labels.astype(np.int64)
    of_label = probabilities[np.arange(len(classes)), classes]
    certain = np.clip(of_label, _EPSILON, 1 - _EPSILON)
    return {
        "loss": float(-np.log(certain).mean()),
        "accuracy": float((probabilities.argmax(axis=1) == classes).mean()),
    }


_MEASURES = {
    "binary": _measure_binary,
    "regression": _measure_regression,
    "multiclass": _measure_multiclass,
}
