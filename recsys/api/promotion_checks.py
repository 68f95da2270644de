from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from recsys.api.evaluate import evaluate
from recsys.data import DataError
from recsys.data import Dataset
from recsys.exporting.served_scores import ServedScores
from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.drift_checks import drift_checks
from recsys.measuring.promotion.rules import PromotionRules
from recsys.measuring.promotion.scored_task import ScoredTask
from recsys.measuring.promotion.slice_checks import slice_checks
from recsys.measuring.promotion.slices import slice_features
from recsys.measuring.promotion.task_checks import task_checks
from recsys.runs.run import Run
from recsys.serving.tensor_spec import Arrays
from recsys.tasks import Multiclass
from recsys.tasks import Regression
from recsys.tasks import Task
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import weights_of

_TIMED_ROWS = (1, 64)
_REPEATS = 40
# Rows of the training data that the new model predicts, to see a drift.
_MOST_TRAINING_ROWS = 100_000


def checks_of(
    old: ServedScores,
    new: ServedScores,
    dataset: Dataset,
    split: str,
    before: pd.DataFrame,
    rules: PromotionRules,
) -> list[Check]:
    """Returns the checks of two served models on a split.

    Args:
        old: The model that is served.
        new: The other one.
        dataset: The data of the day.
        split: Name of the split.
        before: Rows that the new model was trained on.
        rules: What is allowed.

    Raises:
        DataError: The models and the data have no task in common, or other
            classes.
    """
    rows, schema = dataset.split(split), dataset.schema
    kinds = schema.features
    outputs = new.predict(rows, kinds)
    tasks = [
        *_scored(old.predict(rows, kinds), outputs, old, new, dataset, split)
    ]
    if not tasks:
        raise DataError.at(
            schema.place,
            "a task of both models with a label",
            f"tasks {[*schema.tasks]}, outputs {[*old.outputs]} and "
            f"{[*new.outputs]}",
        )
    checks = task_checks([task for _, task in tasks], rules)
    features = slice_features(rows[[*kinds]])
    for labelled, task in tasks:
        checks += slice_checks(task, features[labelled], rules)
    train = before
    if len(train) > _MOST_TRAINING_ROWS:
        train = train.sample(_MOST_TRAINING_ROWS, random_state=0)
    predicted = new.predict(train, kinds)
    names = [task.name for _, task in tasks if task.new.ndim == 1]
    checks += drift_checks(
        {name: train[name] for name in kinds} | _predictions(predicted, names),
        {name: rows[name] for name in kinds} | _predictions(outputs, names),
        rules,
    )
    return [*checks, *_cost_checks(old, new, rows, dataset, rules)]


def _predictions(outputs: Arrays, names: list[str]) -> dict[str, pd.Series]:
    return {
        f"predictions of {name}": pd.Series(outputs[name]) for name in names
    }


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
    weights = weights_of(rows, schema.weight)
    if weights is None:
        weights = np.ones(len(rows))
    user = schema.user_id or schema.group
    groups = None if user is None else pd.factorize(rows[user])[0]
    if groups is not None:  # Rows without a user are on their own.
        alone = groups < 0
        groups[alone] = groups.max(initial=0) + 1 + np.arange(alone.sum())
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


def _cost_checks(
    old: ServedScores,
    new: ServedScores,
    rows: pd.DataFrame,
    dataset: Dataset,
    rules: PromotionRules,
) -> Iterator[Check]:
    """Median latency of one row and of 64, measured in turn, and the size."""
    kinds = dataset.schema.features
    for count in _TIMED_ROWS:
        part = rows[:count]
        inputs = [(model, model.raw(part, kinds)) for model in (old, new)]
        seconds = np.array(
            [
                [model.seconds(raw) for model, raw in inputs]
                for _ in range(_REPEATS)
            ]
        )  # (repeats, models)
        before, after = np.median(seconds, 0)
        ratio, most = float(after / before), rules.most_latency_ratio
        details = {"old": before * 1000, "new": after * 1000}
        name = f"milliseconds for {len(part)} rows"
        yield Check("cost", name, ratio <= most, ratio, most, None, details)
    ratio, most = new.size / old.size, rules.most_size_ratio
    details = {"old": old.size, "new": new.size}
    yield Check("cost", "bytes", ratio <= most, ratio, most, None, details)


def retrieval_checks(
    old: str | Path,
    new: str | Path,
    data: str | Path,
    split: str,
    rules: PromotionRules,
) -> list[Check]:
    """Returns the checks of the retrieval, of two runs that have one.

    Args:
        old: The run that is served; anything else has no checks.
        new: The other one.
        data: Data folder of the day.
        split: Name of the split.
        rules: What is allowed.
    """
    if not all(Run(run).config.is_file() for run in (old, new)):
        return []
    measured = [
        evaluate(run, data, split).get("retrieval", {}) for run in (old, new)
    ]
    checks = []
    for name, before in measured[0].items():
        after = measured[1].get(name)
        if "@" not in name or not before or after is None:
            continue
        change = after / before - 1
        passed = change >= -rules.most_retrieval_drop
        details = {"old": before, "new": after}
        most = rules.most_retrieval_drop
        checks.append(
            Check("retrieval", name, passed, change, most, None, details)
        )
    return checks
