from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar

import numpy as np

from recsys.column_values import as_numbers
from recsys.column_values import refuse
from recsys.errors import DataError
from recsys.probabilities import bounded
from recsys.tasks.row_roles import RowRoles
from recsys.tasks.row_weight import weighted_mean
from recsys.tasks.task import Task

if TYPE_CHECKING:
    import keras
    import pandas as pd

MOST_CLASSES = 100_000  # Larger labels are no classes: each has weights.
_EXPECTED = f"a class, 0 to {MOST_CLASSES - 1:,}"


class Multiclass(Task):
    """Classes 0, 1, 2, ..., `float64` with NaN where missing.

    Predictions are the probabilities of the classes, of which there are as
    many as the largest label of the training split says. In a table they are
    columns `<task>_0`, `<task>_1` and so on.
    """

    type = "multiclass"
    activation = "softmax"
    metrics = ("loss", "accuracy")
    scores: ClassVar[Mapping[str, str]] = {"accuracy": "Accuracy"}

    def check(self, column: "pd.Series[Any]", file: object) -> "pd.Series[Any]":
        expected = f"{_EXPECTED}, or nothing"
        labels = as_numbers(column, file, expected)
        whole = (labels >= 0) & (labels < MOST_CLASSES) & (labels % 1 == 0)
        refuse(column, ~whole & labels.notna(), expected, file)
        return labels

    def check_integers(self, labels: "pd.Series[int]", file: object) -> None:
        outside = (labels < 0) | (labels >= MOST_CLASSES)
        refuse(labels, outside, _EXPECTED, file)

    def num_classes(self, labels: "pd.Series[Any]", file: object) -> int:
        largest = labels.max()
        if not largest > 0:  # NaN neither.
            raise DataError.at(
                file,
                "at least two classes",
                "the class 0" if largest == 0 else "no label",
                column=labels.name,
            )
        return int(largest) + 1

    def columns(self, task: str, num_classes: int | None) -> list[str]:
        return [f"{task}_{index}" for index in range(num_classes or 0)]

    def constant(
        self, labels: Any, num_classes: int | None, weights: Any = None
    ) -> Any:
        """Returns the share of each class."""
        counts = np.bincount(
            labels.astype(int), weights, minlength=num_classes or 0
        )
        return (counts / counts.sum()).tolist()

    def loss(
        self, reduction: str | None, scale: float | None = None
    ) -> "keras.losses.Loss":
        import keras

        return keras.losses.SparseCategoricalCrossentropy(reduction=reduction)

    def _measure(
        self, labels: Any, predictions: Any, roles: RowRoles
    ) -> dict[str, float | None]:
        classes = labels.astype(np.int64)
        of_label = predictions[np.arange(len(classes)), classes]
        return {
            "loss": weighted_mean(-np.log(bounded(of_label)), roles.weights),
            "accuracy": weighted_mean(
                predictions.argmax(axis=1) == classes, roles.weights
            ),
        }
