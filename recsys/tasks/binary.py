import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from recsys.columns.column_values import as_numbers
from recsys.columns.column_values import refuse
from recsys.errors import DataError
from recsys.errors.bounds import LARGEST_FOCUS
from recsys.errors.shown import did_you_mean
from recsys.errors.shown import shown
from recsys.metrics import IN_GROUPS
from recsys.metrics import TASK_METRICS
from recsys.metrics import Metric
from recsys.metrics import ScoredRows
from recsys.metrics.confidence_interval import RowsMetric
from recsys.metrics.confidence_interval import with_intervals
from recsys.metrics.log_loss import bounded
from recsys.tasks.row_roles import ALIKE
from recsys.tasks.row_roles import RowRoles
from recsys.tasks.task import Metrics
from recsys.tasks.task import Task

if TYPE_CHECKING:
    import keras
    from matplotlib.figure import Figure

    from keras_moe.types import Tensor

LARGEST_POS_WEIGHT = 1e9  # Sums of losses stay far from float32's largest.


class Binary(Task):
    """Labels 0 and 1, `float64` with NaN where missing.

    Predictions are probabilities of a 1. One above a half is taken for a 1 in
    the accuracy; the other metrics are those of `recsys.metrics`. There is no
    AUC where all labels are the same. Where rows have groups, `group_metrics`
    are of those within them: means over groups, as in `recsys.metrics`.

    A task after another one is modelled in the entire space, as in ESMM: with
    y the other one and z this one, the head is p(z = 1 | y = 1), and

        p(z = 1 and y = 1) = p(y = 1) p(z = 1 | y = 1)

    is what is predicted, and trained and measured over all rows, with the
    labels of `recsys.tasks.chains.labels_of`.

    Attributes:
        after: Binary task without which this one does not happen, such as the
            click before a purchase; it may come after a third one. `None`
            (default) for none.
        pos_weight: What a 1 counts in the loss that is trained on, beside a 0,
            which counts 1.
        focal: Focusing parameter γ of the focal loss that is trained on, which
            counts less what is predicted well. With 0 (default) and without a
            `pos_weight` it is the cross-entropy. With either, the metrics have
            "optimized_loss", which is what is trained on; "loss" stays the
            cross-entropy.

    References:
        Ma, Zhao, Huang, Wang, Hu, Zhu, Gai. Entire Space Multi-Task Model: An
        Effective Approach for Estimating Post-Click Conversion Rate. SIGIR
        2018, section 2, equations 1 and 3.
        Lin, Goyal, Girshick, He, Dollár. Focal Loss for Dense Object
        Detection. ICCV 2017.
    """

    type = "binary"
    activation = "sigmoid"

    after: str | None = None
    pos_weight: Annotated[
        float, Field(gt=0, le=LARGEST_POS_WEIGHT, allow_inf_nan=False)
    ] = 1.0
    focal: Annotated[
        float, Field(ge=0, le=LARGEST_FOCUS, allow_inf_nan=False)
    ] = 0.0

    @property
    def parent(self) -> str | None:
        return self.after

    def check_among(self, tasks: Mapping[str, Task], name: str) -> None:
        if self.after is None:
            return
        place = "'tasks'"
        candidates = [task for task in tasks if task != name]
        binary = [
            task for task in candidates if isinstance(tasks[task], Binary)
        ]
        if self.after not in binary:
            raise DataError.at(
                place,
                f"`after` one of the other binary tasks {binary}"
                f"{did_you_mean(self.after, binary)}",
                shown(self.after),
                column=name,
            )
        chain, task = [name], self.after
        while task in tasks and task not in chain:
            chain.append(task)
            task = tasks[task].parent or ""
        if task == name:
            raise DataError.at(
                place,
                "`after` a task that does not come after this one",
                " after ".join([*chain, name]),
                column=name,
            )

    def check(self, column: pd.Series, file: object) -> pd.Series:
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

        from recsys.tasks.imbalanced_crossentropy import ImbalancedCrossentropy

        if not self._has_own_loss:
            return keras.losses.BinaryCrossentropy(reduction=reduction)
        return ImbalancedCrossentropy(self.pos_weight, self.focal, reduction)

    def shifted(self, outputs: "Tensor", by: "Tensor") -> "Tensor":
        from keras import ops

        odds = outputs * ops.exp(by)
        return odds / (odds + 1 - outputs)

    @property
    def _has_own_loss(self) -> bool:
        return self.pos_weight != 1 or self.focal != 0

    def measure(
        self,
        labels: np.ndarray,
        predictions: np.ndarray,
        scale: float | None = None,
        roles: RowRoles = ALIKE,
    ) -> Metrics:
        metrics = super().measure(labels, predictions, scale, roles)
        if self._has_own_loss:
            metrics.setdefault("optimized_loss", None)
        if roles.resamples and "loss_interval" not in metrics:
            metrics |= {f"{name}_interval": None for name in metrics}
        return metrics

    def _measure(
        self, labels: np.ndarray, predictions: np.ndarray, roles: RowRoles
    ) -> Metrics:
        if np.isnan(predictions).any():  # Of a model that has diverged.
            names = [*self.metrics]
            names += self.group_metrics(roles.k) if roles.has_groups else ()
            losses = ["loss", *(["optimized_loss"] * self._has_own_loss)]
            return dict.fromkeys(names) | dict.fromkeys(losses, math.nan)
        rows = ScoredRows.of(
            labels, predictions, roles.units, weights=roles.weights
        )
        metrics = with_intervals(self._of_all(), rows, roles.resamples)
        if roles.groups is not None:
            belongs = roles.groups.notna().to_numpy()
            known = roles.of_rows(belongs)
            rows = ScoredRows.of(
                labels[belongs],
                predictions[belongs],
                known.groups,
                known.weights,
            )
            within = self._within_groups(roles.k)
            metrics |= with_intervals(within, rows, roles.resamples)
        return metrics

    def _of_all(self) -> dict[str, RowsMetric]:
        """The metrics of all rows by name."""
        metrics = {
            metric.name: metric.compute for metric in TASK_METRICS[self.type]
        }
        if self._has_own_loss:
            metrics["optimized_loss"] = self._optimized_loss
        return metrics

    def _optimized_loss(self, rows: ScoredRows) -> float | None:
        """The mean of `ImbalancedCrossentropy`, in float64."""
        likelihood = np.where(rows.labels, rows.scores, 1 - rows.scores)
        factors = np.where(rows.labels, self.pos_weight, 1.0)
        factors *= (1 - bounded(likelihood)) ** self.focal
        return rows.mean(-factors * np.log(bounded(likelihood)))

    def _within_groups(self, k: int) -> dict[str, RowsMetric]:
        """The metrics within groups by name."""
        return {
            metric.name_at(k): partial(metric.compute, k=k)
            if metric.at_k
            else metric.compute
            for metric in TASK_METRICS[IN_GROUPS]
        }

    def group_metrics(self, k: int) -> tuple[str, ...]:
        return tuple(metric.name_at(k) for metric in TASK_METRICS[IN_GROUPS])

    @property
    def logged(self) -> tuple[Metric, ...]:
        within = (metric for metric in TASK_METRICS[IN_GROUPS] if metric.title)
        return *super().logged, *within

    def figures(
        self,
        title: str,
        labels: np.ndarray,
        predictions: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> dict[str, "Figure"]:
        from recsys.plots import calibration

        figure = calibration(title, labels, predictions, weights=weights)
        return {"calibration": figure}
