from collections.abc import Iterator
from typing import Literal

import numpy as np

from recsys.api.promotion.cost import cost_checks
from recsys.api.promotion.drift import drift_since
from recsys.api.promotion.value import value_checks
from recsys.data import DataError
from recsys.data import Dataset
from recsys.exporting.served_scores import ServedScores
from recsys.measuring.clusters import clusters_of
from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.rules import PromotionRules
from recsys.measuring.promotion.scored_task import ScoredTask
from recsys.measuring.promotion.slices import slice_checks
from recsys.measuring.promotion.slices import slice_features
from recsys.measuring.promotion.task_checks import task_checks
from recsys.serving.tensor_spec import Arrays
from recsys.tasks import Multiclass
from recsys.tasks import Regression
from recsys.tasks import Task
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import weights_of


def checks_of(
    old: ServedScores,
    new: ServedScores,
    dataset: Dataset,
    split: str,
    trained: Dataset,
    rules: PromotionRules,
) -> list[Check]:
    """Returns the checks of two served models on a split.

    Args:
        old: The model that is served.
        new: The other one.
        dataset: The data of the day.
        split: Name of the split.
        trained: The data that the new model was trained on.
        rules: What is allowed.

    Raises:
        DataError: The models and the data have no task in common, or other
            classes.
        FileError: The rules name a task or a formula that the models lack.
    """
    rows, schema = dataset.split(split), dataset.schema
    kinds = schema.features
    if not any(
        name in old.outputs and name in new.outputs for name in schema.tasks
    ):
        raise DataError.at(
            schema.place,
            "a task of both models",
            f"tasks {[*schema.tasks]}, outputs {[*old.outputs]} and "
            f"{[*new.outputs]}",
        )
    of_old, of_new = old.predict(rows, kinds), new.predict(rows, kinds)
    scored = [*_scored(of_old, of_new, old, new, dataset, split)]
    tasks = [task for _, task in scored]
    checks = task_checks(tasks, rules)
    checks += value_checks(of_old, of_new, dataset, split, tasks, rules)
    features = slice_features(rows[[*kinds]])
    for labelled, task in scored:
        checks += slice_checks(task, features[labelled], rules)
    checks += drift_since(trained, new, dataset, split, of_new, rules)
    return [*checks, *cost_checks(old, new, dataset, split, rules)]


def _scored(
    of_old: Arrays,
    of_new: Arrays,
    old: ServedScores,
    new: ServedScores,
    dataset: Dataset,
    split: str,
) -> Iterator[tuple[np.ndarray, ScoredTask]]:
    """Each task with a label, and which rows have one."""
    rows, schema = dataset.split(split), dataset.schema
    labels = labels_of(rows, schema.tasks)
    weights = weights_of(rows, schema.row_weights)
    if weights is None:
        weights = np.ones(len(rows))
    user = schema.user_id or schema.group
    groups = None if user is None else clusters_of(rows[user])
    for name, kind in schema.tasks.items():
        labelled = ~np.isnan(labels[name]) & (weights > 0)
        if name not in of_old or name not in of_new or not labelled.any():
            continue
        _check_classes(name, kind, old, new, dataset)
        yield (
            labelled,
            ScoredTask(
                name,
                _kind(kind),
                labels[name][labelled],
                of_old[name][labelled],
                of_new[name][labelled],
                weights[labelled],
                None if groups is None else groups[labelled],
            ),
        )


def _kind(kind: Task) -> Literal["binary", "regression", "multiclass"]:
    if isinstance(kind, Multiclass):
        return "multiclass"
    return "regression" if isinstance(kind, Regression) else "binary"


def _check_classes(
    name: str,
    kind: Task,
    old: ServedScores,
    new: ServedScores,
    dataset: Dataset,
) -> None:
    if not isinstance(kind, Multiclass):
        return
    names = kind.class_names(dataset.num_classes.get(name))
    for model in (old, new):
        if model.classes.get(name) != names:
            raise DataError.at(
                dataset.schema.place,
                f"the classes {model.classes.get(name)} of {name!r}",
                str(names),
            )
