import pandas as pd

from recsys.data import Dataset
from recsys.exporting.served_scores import ServedScores
from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.drift_checks import alike
from recsys.measuring.promotion.drift_checks import drift_checks
from recsys.measuring.promotion.drift_checks import unknown_checks
from recsys.measuring.promotion.rules import PromotionRules
from recsys.serving.tensor_spec import Arrays
from recsys.tasks import Multiclass
from recsys.tasks import Regression
from recsys.tasks.chains import labels_of

# Rows of the training data that the new model predicts, to see a drift.
_MOST_PREDICTED = 100_000

_Columns = dict[str, pd.Series]


def drift_since(
    trained: Dataset,
    new: ServedScores,
    dataset: Dataset,
    split: str,
    outputs: Arrays,
    rules: PromotionRules,
) -> list[Check]:
    """Returns the checks of what has changed since training.

    Features and predictions are compared with the training split, labels with
    the validation split: of a training split, negatives may be a sample.

    Args:
        trained: The data that the new model was trained on.
        new: The new model.
        dataset: The data of the day.
        split: Name of its split.
        outputs: What the new model predicts for the split.
        rules: What is allowed.
    """
    rows, train = dataset.split(split), trained.split("train")
    kinds = {
        name: kind
        for name, kind in dataset.schema.features.items()
        if name in trained.schema.features
    }
    before: _Columns = {}
    after: _Columns = {}
    for name, kind in kinds.items():
        before[name], after[name] = alike(kind, [train[name], rows[name]])
    if len(train) > _MOST_PREDICTED:
        train = train.sample(_MOST_PREDICTED, random_state=0)
    before |= _predicted(new.predict(train, dataset.schema.features))
    after |= _predicted(outputs)
    before |= _labels(trained, trained.split("validation"), dataset)
    after |= _labels(dataset, rows, dataset)
    names = [name for name in before if name in after]
    return [
        *drift_checks(
            {name: before[name] for name in names},
            {name: after[name] for name in names},
            rules,
        ),
        *unknown_checks(kinds, trained.splits, rows, rules),
    ]


def _predicted(outputs: Arrays) -> _Columns:
    return {
        f"predictions of {name}": pd.Series(values)
        for name, values in outputs.items()
        if values.ndim == 1
    }


def _labels(source: Dataset, rows: pd.DataFrame, day: Dataset) -> _Columns:
    """Labels by task: numbers of a regression, else categories by name."""
    tasks = source.schema.tasks
    labels = labels_of(rows, tasks)
    columns: _Columns = {}
    for name, kind in tasks.items():
        if name not in day.schema.tasks:
            continue
        column = pd.Series(labels[name])
        if isinstance(kind, Multiclass):
            # Each data set numbers its classes by itself.
            names = kind.class_names(source.num_classes.get(name))
            column = column.map(dict(enumerate(names))).astype(object)
        elif not isinstance(kind, Regression):
            column = column.astype(object)
        columns[f"labels of {name}"] = column
    return columns
