"""Statistics of the training labels, for the model to keep."""

import numpy as np

from recsys.data.load import AnyDataset
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import weights_of


def constant_predictions(dataset: AnyDataset) -> dict[str, float | list[float]]:
    """Returns the best prediction of each task that looks at no feature.

    Args:
        dataset: The data set to be trained on.

    Returns:
        By task, the mean of the training split's labels: the base rate of a
        binary task, a list with the share of each class of a multiclass one.
        A task without a label is left out.

    Example:
    >>> import pandas as pd
    >>> from recsys.data import Dataset, Schema
    >>> rows = pd.DataFrame({"user": [1, 2, 3], "price": [5.0, 7.0, None]})
    >>> schema = Schema("shop", {"user": "id"}, {"price": "regression"})
    >>> constant_predictions(Dataset(schema, {"train": rows}))
    {'price': 6.0}
    """
    constants: dict[str, float | list[float]] = {}
    for task, kind in dataset.schema.tasks.items():
        labels, weights = _known_labels(dataset, task)
        if len(labels):
            count = dataset.num_classes.get(task)
            constants[task] = kind.constant(labels, count, weights)
    return constants


def target_scales(dataset: AnyDataset) -> dict[str, float]:
    """Returns the scale of each task that can be standardised.

    Args:
        dataset: The data set to be trained on.

    Returns:
        By task, what `Task.scale` makes of the training split's labels: the
        standard deviation of those of a regression task. A task without a
        label is left out.

    Raises:
        DataError: Labels cannot be standardised.

    Example:
    >>> import pandas as pd
    >>> from recsys.data import Dataset, Schema
    >>> rows = pd.DataFrame({"user": [1, 2, 3], "price": [5.0, 7.0, None]})
    >>> schema = Schema("shop", {"user": "id"}, {"price": "regression"})
    >>> target_scales(Dataset(schema, {"train": rows}))
    {'price': 1.0}
    """
    scales = {}
    for task, kind in dataset.schema.tasks.items():
        labels, weights = _known_labels(dataset, task)
        if kind.standardizable and len(labels):
            source = f"{dataset.schema.place}, split 'train'"
            scales[task] = kind.scale(labels, task, source, weights)
    return scales


def _known_labels(
    dataset: AnyDataset, task: str
) -> tuple[np.ndarray, np.ndarray | None]:
    """The training split's labels of rows that count, and their weights."""
    split = dataset.split("train")[dataset.schema.truth_columns]
    labels = labels_of(split, dataset.schema.tasks)[task]
    weights = weights_of(split, dataset.schema.row_weights)
    known = ~np.isnan(labels)
    if weights is None:
        return labels[known], None
    known &= weights > 0
    return labels[known], weights[known]
