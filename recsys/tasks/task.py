from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar

from recsys.kind import Kind

if TYPE_CHECKING:
    import keras
    import pandas as pd
    from matplotlib.figure import Figure


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
        metrics: The names of what `measure` returns, "loss" first.
        scores: Those of them that are logged in each epoch and shown, beside
            the loss, with their titles.
    """

    of_images: ClassVar[bool] = True
    activation: ClassVar[str | None] = None
    standardizable: ClassVar[bool] = False
    metrics: ClassVar[tuple[str, ...]]
    scores: ClassVar[Mapping[str, str]] = {}

    def check_integers(self, labels: "pd.Series[int]", file: object) -> None:
        """Checks the labels of images: integers, none of which is missing.

        Args:
            labels: The labels.
            file: Where they come from, for the error message.

        Raises:
            DataError: A label is none of this kind.
        """
        raise NotImplementedError

    def num_classes(self, labels: "pd.Series[Any]", file: object) -> int | None:
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

    def constant(self, labels: Any, num_classes: int | None) -> Any:
        """Returns the best prediction that looks at no feature.

        Args:
            labels: Float64 array `(rows,)` of the training split's labels, at
                least one.
            num_classes: What the method of this name returns.

        Returns:
            The mean of the labels, or a list of a number for each class.
        """
        return float(labels.mean())

    def scale(self, labels: Any, task: str, source: str) -> float:
        """Returns the unit that a standardised task is trained in.

        Args:
            labels: Float64 array `(rows,)` of the training split's labels, at
                least one.
            task: Name of the task, for the error message.
            source: Where the labels come from, for the error message.

        Raises:
            DataError: The labels cannot be standardised.
        """
        raise NotImplementedError

    def loss(
        self, reduction: str | None, scale: float | None = None
    ) -> "keras.losses.Loss":
        """Returns the loss that the task is trained on.

        Args:
            reduction: As in `keras.losses.Loss`.
            scale: What `scale` returns, for a standardised task.
        """
        raise NotImplementedError

    def measure(
        self, labels: Any, predictions: Any, scale: float | None = None
    ) -> dict[str, float | None]:
        """Returns the exact metrics of predictions.

        Args:
            labels: Float64 array `(rows,)`, none missing.
            predictions: Float64 array `(rows,)`, or `(rows, classes)`.
            scale: What `scale` returns, for a standardised task.

        Returns:
            What `metrics` names, `None` where it cannot be computed, and for
            a standardised task "standardized_loss", which is what it is
            trained on.
        """
        if not len(labels):
            return dict.fromkeys(self.metrics)
        return self._measure(labels, predictions)

    def _measure(
        self, labels: Any, predictions: Any
    ) -> dict[str, float | None]:
        """The metrics of at least one row."""
        raise NotImplementedError

    def figures(
        self, title: str, labels: Any, predictions: Any
    ) -> dict[str, "Figure"]:
        """Returns the figures of a split by name.

        Args:
            title: What is drawn: the task and the split.
            labels: Float64 array `(rows,)`, NaN where missing.
            predictions: Float64 array `(rows,)`, or `(rows, classes)`.
        """
        return {}
