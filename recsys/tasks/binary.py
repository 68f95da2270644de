import math
from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar

import numpy as np
import pandas as pd

from recsys.column_values import as_numbers
from recsys.column_values import refuse
from recsys.tasks.task import Task

if TYPE_CHECKING:
    import keras
    from matplotlib.figure import Figure


class Binary(Task):
    """Labels 0 and 1, `float64` with NaN where missing.

    Predictions are probabilities of a 1. One above a half is taken for a 1 in
    the accuracy; the other metrics are those of `recsys.metrics`. There is no
    AUC where all labels are the same.
    """

    type = "binary"
    activation = "sigmoid"
    metrics = (
        "loss",
        "auc",
        "pr_auc",
        "accuracy",
        "ece",
        "normalized_entropy",
    )
    scores: ClassVar[Mapping[str, str]] = {
        "auc": "AUC",
        "pr_auc": "PR-AUC",
        "accuracy": "Accuracy",
        "ece": "ECE",
    }

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
        from recsys.metrics import ScoredRows
        from recsys.metrics import auc
        from recsys.metrics import ece
        from recsys.metrics import log_loss
        from recsys.metrics import normalized_entropy
        from recsys.metrics import pr_auc

        if np.isnan(predictions).any():  # Of a model that has diverged.
            return dict.fromkeys(self.metrics) | {"loss": math.nan}
        rows = ScoredRows.of(labels, predictions)
        return {
            "loss": log_loss(rows),
            "auc": auc(rows),
            "pr_auc": pr_auc(rows),
            "accuracy": float(((predictions > 0.5) == labels).mean()),
            "ece": ece(rows),
            "normalized_entropy": normalized_entropy(rows),
        }

    def figures(
        self, title: str, labels: Any, predictions: Any
    ) -> dict[str, "Figure"]:
        from recsys.plots import calibration

        return {"calibration": calibration(title, labels, predictions)}
