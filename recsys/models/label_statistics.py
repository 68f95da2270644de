"""What the labels of a training split are like, for the model to keep."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from recsys.data import DataError
from recsys.data import Split
from recsys.data.load import AnyDataset

# Float32 tells numbers apart that differ by 2^-24 of their size. Labels that
# spread over less than 16 such steps cannot be learned in it.
_SMALLEST_SPREAD = 2.0**-20
_TINY = float(np.finfo(np.float32).tiny)


def constant_predictions(
    dataset: AnyDataset, num_classes: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Returns the best prediction of each task that looks at no feature.

    Args:
        dataset: The data set to be trained on.
        num_classes: For each multiclass task, how many classes there are.

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
    constants: dict[str, Any] = {}
    classes = num_classes or {}
    for task, kind in dataset.schema.tasks.items():
        labels = _known_labels(dataset.split("train"), task)
        if not len(labels):
            continue
        if kind.type == "multiclass":
            counts = np.bincount(labels.astype(int), minlength=classes[task])
            constants[task] = (counts / len(labels)).tolist()
        else:
            constants[task] = float(labels.mean())
    return constants


def target_scales(dataset: AnyDataset) -> dict[str, float]:
    """Returns the standard deviation of each regression task's labels.

    Args:
        dataset: The data set to be trained on.

    Returns:
        By task, the standard deviation of the training split's labels; 1
        where they are all the same. A task without a label is left out.

    Raises:
        DataError: Labels are so close together, compared with their size,
            that float32 cannot tell them apart.

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
        labels = _known_labels(dataset.split("train"), task)
        if kind.type == "regression" and len(labels):
            scales[task] = _scale(labels, task, dataset.schema.name)
    return scales


def _scale(labels: Any, task: str, data_set: str) -> float:
    # Rounding gives equal labels a deviation that is not quite 0.
    if labels.min() == labels.max():
        return 1.0
    scale, largest = float(labels.std()), float(np.abs(labels).max())
    if scale < max(_SMALLEST_SPREAD * largest, _TINY):
        raise DataError.at(
            f"data set {data_set!r}, split 'train'",
            "labels whose differences float32 can tell; subtract a constant "
            "from them, or change their unit",
            f"labels of up to {largest:g} with a standard deviation of "
            f"{scale:g}",
            column=task,
        )
    return scale


def _known_labels(split: Split, task: str) -> Any:
    labels = split[task].to_numpy(np.float64)
    return labels[~np.isnan(labels)]
