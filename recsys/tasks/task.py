from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar
from typing import TypeAlias

from recsys.columns.kind import Kind
from recsys.metrics import TASK_METRICS
from recsys.metrics import LabelledRows
from recsys.metrics import Metric
from recsys.metrics.labelled_rows import weighted_mean
from recsys.tasks.row_roles import ALIKE
from recsys.tasks.row_roles import RowRoles

if TYPE_CHECKING:
    import keras
    import numpy as np
    import pandas as pd
    from matplotlib.figure import Figure

    from keras_moe.types import Tensor

# Metrics by name, ready for JSON: numbers, intervals of two, `None`.
Metrics: TypeAlias = dict[str, Any]


class Task(Kind):
    """A kind of task: what a model may be asked to predict.

    All that is particular to a kind is in its class; `TASKS` has its name.
    Missing labels are left out by whoever calls these methods. Those that
    need Keras, scikit-learn or matplotlib import them when they are called:
    `recsys prepare`, which checks labels, starts without.

    Attributes:
        of_images: Whether images may have such a task.
        activation: What Keras calls the activation of the head.
        standardizable: Whether the task may be trained in units of a scale.
        squares_errors: Whether the loss is a squared error.
        of_labels: The options that say what labels are, which nothing but the
            data set can.
    """

    of_images: ClassVar[bool] = True
    activation: ClassVar[str | None] = None
    standardizable: ClassVar[bool] = False
    squares_errors: ClassVar[bool] = False
    of_labels: ClassVar[tuple[str, ...]] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of what `measure` returns, "loss" first."""
        return tuple(metric.name for metric in TASK_METRICS[self.type])

    @property
    def logged(self) -> tuple[Metric, ...]:
        """The metrics that are logged after each epoch, beside the loss."""
        registered = TASK_METRICS[self.type]
        return tuple(metric for metric in registered if metric.title)

    @property
    def parent(self) -> str | None:
        """Task without which this one does not happen; `None` for none."""
        return None

    def check_among(self, tasks: Mapping[str, "Task"], name: str) -> None:
        """Checks what the task says of others of its data set.

        Args:
            tasks: All tasks of the data set.
            name: This one's name.

        Raises:
            DataError: Another one is missing, or of a kind that cannot be.
        """

    def check_integers(self, labels: "pd.Series[int]", file: object) -> None:
        """Checks the labels of images: integers, none of which is missing.

        Args:
            labels: The labels.
            file: Where they come from, for the error message.

        Raises:
            DataError: A label is none of this kind.
        """
        raise NotImplementedError

    def learned(self, labels: "Sequence[pd.Series]", file: object) -> "Task":
        """Returns the task with what only the training split's labels tell.

        Args:
            labels: They, part by part, as `check` and `unified` return them.
                If another task is returned, its `check` takes them, too.
            file: Where they come from, for the error message.

        Raises:
            DataError: The labels are none that this kind can have together.
        """
        return self

    def as_stored(self, labels: "pd.Series") -> "pd.Series":
        """Returns checked labels as a file has them."""
        return labels

    def num_classes(self, labels: "pd.Series", file: object) -> int | None:
        """Returns how many classes there are, each an output of the head.

        Args:
            labels: The training split's labels.
            file: Where they come from, for the error message.

        Returns:
            The number of classes; `None` where labels are no classes, and the
            head has one output.

        Raises:
            DataError: There is no class to tell from another.
        """
        return None

    def columns(self, task: str, num_classes: int | None) -> list[str]:
        """Returns the names of the columns of predictions in a table.

        Args:
            task: Name of the task.
            num_classes: What the method of this name returns.

        Returns:
            As many as the head has outputs, in their order.
        """
        return [task]

    def constant(
        self,
        labels: "np.ndarray",
        num_classes: int | None,
        weights: "np.ndarray | None" = None,
    ) -> float | list[float]:
        """Returns the best prediction that looks at no feature.

        Args:
            labels: Float64 array `(rows,)` of the training split's labels, at
                least one.
            num_classes: What the method of this name returns.
            weights: Array `(rows,)` of how much each counts, some above 0;
                each once unless given.

        Returns:
            The mean of the labels, or a list of a number for each class.
        """
        return weighted_mean(labels, weights)

    def scale(
        self,
        labels: "np.ndarray",
        task: str,
        source: str,
        weights: "np.ndarray | None" = None,
    ) -> float:
        """Returns the unit that a standardised task is trained in.

        Args:
            labels: Float64 array `(rows,)` of the training split's labels, at
                least one.
            task: Name of the task, for the error message.
            source: Where the labels come from, for the error message.
            weights: As in `constant`.

        Raises:
            DataError: The labels cannot be standardised.
        """
        raise NotImplementedError

    def unit(self, scale: float | None = None) -> str:
        """Returns the unit of the loss, for the axis of a figure.

        Args:
            scale: What `scale` returns, for a standardised task.
        """
        return "nats"

    def loss(
        self, reduction: str | None, scale: float | None = None
    ) -> "keras.losses.Loss":
        """Returns the loss that the task is trained on.

        Args:
            reduction: As in `keras.losses.Loss`.
            scale: What `scale` returns, for a standardised task.
        """
        raise NotImplementedError

    def shifted(self, outputs: "Tensor", by: "Tensor") -> "Tensor":
        """Returns what a head's output is if its last sums are other ones.

        Args:
            outputs: Float32 tensor `(batch, outputs)`, after the activation.
            by: Tensor of that shape, what is added before it.
        """
        return outputs + by

    def measure(
        self,
        labels: "np.ndarray",
        predictions: "np.ndarray",
        scale: float | None = None,
        roles: RowRoles = ALIKE,
    ) -> Metrics:
        """Returns the exact metrics of predictions.

        Args:
            labels: Float64 array `(rows,)`, none missing.
            predictions: Float64 array `(rows,)`, or `(rows, classes)`.
            scale: What `scale` returns, for a standardised task.
            roles: What the rows count, and what they belong to. A row of
                weight 0 is as good as missing.

        Returns:
            What `metrics` names, with groups what `group_metrics` names, too,
            `None` where it cannot be computed, and for a standardised task
            "standardized_loss", which is what it is trained on. Where the
            roles say so, a binary task also has intervals of all of them, as
            `recsys.metrics.confidence_interval` names them.
        """
        if roles.weights is not None and not roles.weights.all():
            counts = roles.weights > 0
            labels, predictions = labels[counts], predictions[counts]
            roles = roles.of_rows(counts)
        if not len(labels):
            grouped = self.group_metrics(roles.k) if roles.has_groups else ()
            return dict.fromkeys((*self.metrics, *grouped))
        return self._measure(labels, predictions, roles)

    def group_metrics(self, k: int) -> tuple[str, ...]:
        """Returns the names of the metrics within groups of rows.

        Args:
            k: How many rows of a group a ranking shows.
        """
        return ()

    def _measure(
        self, labels: "np.ndarray", predictions: "np.ndarray", roles: RowRoles
    ) -> Metrics:
        """The metrics of at least one row, all of a weight above 0."""
        rows = LabelledRows(labels, predictions, roles.weights)
        return {
            metric.name: metric.compute(rows)
            for metric in TASK_METRICS[self.type]
        }

    def figures(
        self,
        title: str,
        labels: "np.ndarray",
        predictions: "np.ndarray",
        weights: "np.ndarray | None" = None,
    ) -> dict[str, "Figure"]:
        """Returns the figures of a split by name.

        Args:
            title: What is drawn: the task and the split.
            labels: Float64 array `(rows,)`, NaN where missing.
            predictions: Float64 array `(rows,)`, or `(rows, classes)`.
            weights: Array `(rows,)` of how much each counts; each once unless
                given.
        """
        return {}
