from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import load
from recsys.models.ranker import Ranker
from recsys.models.scorer import Scorer
from recsys.models.scorer import Scores
from recsys.run import Run

# What Keras's binary cross-entropy keeps probabilities away from 0 and 1.
_EPSILON = 1e-7


def evaluate(
    run: str | Path, data: str | Path, split: str = "test"
) -> dict[str, Any]:
    """Evaluates the model of a run on one split of a data set.

    Args:
        run: Run folder.
        data: Data folder, or "synthetic".
        split: "train", "validation" or "test".

    Returns:
        The metrics, as `measure` returns them, with the run's task weights.

    Raises:
        DataError: The data are missing or wrong.
        RunError: There is no trained run in the folder.
    """
    folder = Run(run)
    config = folder.read_config()
    ranker = folder.load_model()
    dataset = load(data)
    _check_columns(ranker, dataset)
    frame = dataset.split(split)
    return measure(
        Scorer(ranker).score(frame), frame, ranker.tasks, config.task_weights
    )


def measure(
    scores: Scores,
    frame: pd.DataFrame,
    tasks: Mapping[str, str],
    task_weights: Mapping[str, float],
) -> dict[str, Any]:
    """Returns the exact metrics of a table, in float64, ready for JSON.

    Args:
        scores: What the model says about the rows.
        frame: The rows with their labels, a column a task, NaN where missing.
        tasks: The tasks with their type, "binary" or "regression".
        task_weights: Weight of each task's loss.

    Returns:
        "loss", the weighted sum of the tasks' losses without regularisers;
        "rows"; "tasks", for each the "loss", a mean over the rows that have
        a label, with "auc" or "mse"; "experts_per_example", the mean of
        "experts_per_example_by_task". What cannot be computed, such as an AUC
        of one class or the experts of a shared bottom, is `None`.
    """
    by_task = {
        task: _measure_task(
            kind,
            frame[task].to_numpy(np.float64),
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
        "rows": len(frame),
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
    score = _measure_binary if kind == "binary" else _measure_regression
    return score(labels, predictions)


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


def _check_columns(ranker: Ranker, dataset: Dataset) -> None:
    schema = dataset.schema
    columns = schema.features | schema.tasks
    for column, kind in (ranker.features | ranker.tasks).items():
        if columns.get(column) != kind:
            raise DataError.at(
                f"data set {schema.name!r}",
                f"a column {column!r} of type {kind}, as in training",
                columns.get(column, "no such column"),
            )
