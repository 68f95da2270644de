from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.position_tower import POSITIONS
from recsys.models.position_tower import encoded_positions
from recsys.retrieval.counting_rows import row_weights
from recsys.retrieval.retrieval import ROW_WEIGHTS
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import Weighing
from recsys.tasks.row_weight import weights_of

if TYPE_CHECKING:
    import pandas as pd

    from recsys.data.image_dataset import Images

TrainingArrays = tuple[
    dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]
]


@dataclass(frozen=True)
class RowEncoder:
    """Encodes rows of a data set for the training of a model.

    Args:
        model: The model.
        weight: What says what rows count; each counts once with `None`.
        retrieval_label: The task whose label is 1 in the rows that count for
            retrieval, "all" where all rows do; `None` without retrieval.
        position: Column with the positions of rows, which a model with a
            position tower is trained with; `None` without one.

    Call arguments:
        rows: Rows in memory, with the features and labels of the model.

    Returns:
        The inputs, labels and weights, as `training_arrays` has them. With
        retrieval, the inputs have how much each row counts for it.
    """

    model: MultiTaskModel
    weight: Weighing = None
    retrieval_label: str | None = None
    position: str | None = None

    def __call__(self, rows: "pd.DataFrame | Images") -> TrainingArrays:
        labels = labels_of(rows, self.model.tasks)
        weights = weights_of(rows, self.weight)
        inputs = self.model.encode(rows)
        if self.retrieval_label is not None:
            inputs[ROW_WEIGHTS] = row_weights(
                labels, self.retrieval_label, weights, len(rows)
            )
        if self.position is not None and self.model.num_positions:
            inputs[POSITIONS] = encoded_positions(rows[self.position])
        return training_arrays(inputs, labels, weights)


def training_arrays(
    inputs: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray],
    weights: np.ndarray | None = None,
) -> TrainingArrays:
    """Returns rows as `fit` of Keras takes them.

    Args:
        inputs: For each feature, an array `(rows, ...)`.
        labels: For each task, a float array `(rows,)`, NaN where missing.
        weights: Float array `(rows,)`, how much each row counts in the losses
            of its batch. Each counts once unless given.

    Returns:
        The inputs; the labels, float32 `(rows, 1)`, 0 where missing; and how
        much each row counts in the loss of each task, `(rows,)`: a row without
        a label not at all.

    Example:
    >>> _, labels, weights = training_arrays(
    ...     {"user": np.array([7, 8])}, {"watch": np.array([1.0, np.nan])}
    ... )
    >>> labels["watch"].tolist(), weights["watch"].tolist()
    ([[1.0], [0.0]], [1.0, 0.0])
    """
    known = {
        task: (~np.isnan(values)).astype(np.float32)
        for task, values in labels.items()
    }
    if weights is not None:
        for counts in known.values():
            counts *= weights
    filled = {
        task: np.nan_to_num(values)[:, None].astype(np.float32)
        for task, values in labels.items()
    }
    return dict(inputs), filled, known
