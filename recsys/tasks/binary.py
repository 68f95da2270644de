from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar

import numpy as np
import pandas as pd

from recsys.column_values import as_numbers
from recsys.column_values import refuse
from recsys.probabilities import bounded
from recsys.tasks.task import Task

if TYPE_CHECKING:
    import keras
    from matplotlib.figure import Figure


class Binary(Task):
    """Labels 0 and 1, `float64` with NaN where missing.

    Predictions are probabilities of a 1. One above a half is taken for a 1 in
    the accuracy. There is no AUC where all labels are the same.
    """

    type = "binary"
    activation = "sigmoid"
    metrics = ("loss", "auc", "accuracy")
    scores: ClassVar[Mapping[str, str]] = {"auc": "AUC", "accuracy": "Accuracy"}

    def check(self, column: "pd.Series[Any]", file: object) -> "pd.Series[Any]":
        expected = "0, 1 or nothing"
        labels = as_numbers(column, file, expected)
        refuse(column, ~labels.isin((0, 1)) & labels.notna(), expected, file)
        return labels

    def check_integers(self, labels: "pd.Series[int]", file: object) -> None:
        refuse(labels, ~labels.isin((0, 1)), "0 or 1", file)

    def loss(
        self, reduction: str | None, scale: float | None = None
    ) -> "keras.losses.Loss":
        import keras

        return keras.losses.BinaryCrossentropy(reduction=reduction)

    def _measure(
        self, labels: Any, predictions: Any
    ) -> dict[str, float | None]:
        from sklearn.metrics import roc_auc_score

        certain = bounded(predictions)
        likelihood = np.where(labels == 1, certain, 1 - certain)
        one_class = labels.min() == labels.max()
        return {
            "loss": float(-np.log(likelihood).mean()),
            "auc": None
            if one_class
            else float(roc_auc_score(labels, predictions)),
            "accuracy": float(((predictions > 0.5) == labels).mean()),
        }

    def figures(
        self, title: str, labels: Any, predictions: Any
    ) -> dict[str, "Figure"]:
        from recsys.plots import calibration

        return {"calibration": calibration(title, labels, predictions)}
