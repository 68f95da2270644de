"""Measures the gradients of the tasks' losses by each expert."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_moe.layers import Experts
from keras_moe.layers import LayerExperts
from keras_moe.types import Tensor
from recsys.models.expert_levels import steps_of
from recsys.models.multi_task_model import MultiTaskModel
from recsys.weighting.loss_gradients import loss_gradients

Floats = npt.NDArray[np.float64]


def gradient_norms(
    model: MultiTaskModel,
    inputs: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray],
    task_weights: Mapping[str, float],
    banks: Sequence[Experts],
) -> list[dict[str, Floats]]:
    """The norms of the tasks' gradients by each expert, for each bank."""
    variables = [v for bank in banks for v in bank.trainable_variables]
    counts = {task: max(1, np.sum(~np.isnan(y))) for task, y in labels.items()}
    total: list[list[np.ndarray]] = []
    for step in steps_of(inputs, model.rows_per_step) if variables else ():
        some = {name: values[step] for name, values in inputs.items()}
        known = {task: values[step] for task, values in labels.items()}

        def losses(some: Any = some, known: Any = known) -> Tensor:
            sums = _sums_of_losses(model, some, known)
            return ops.stack(
                [sums[t] * (task_weights[t] / counts[t]) for t in model.tasks]
            )

        found = loss_gradients(losses, variables)
        if total:
            found = [
                [a + b for a, b in zip(*both, strict=True)]
                for both in zip(total, found, strict=True)
            ]
        total = found
    of_tasks = [
        {id(v): g for v, g in zip(variables, of_task, strict=True)}
        for of_task in total
    ] or [{} for _ in model.tasks]
    return [
        {
            task: _norms(bank, gradients)
            for task, gradients in zip(model.tasks, of_tasks, strict=True)
        }
        for bank in banks
    ]


def _sums_of_losses(
    model: MultiTaskModel,
    inputs: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray],
) -> dict[str, Tensor]:
    """The sum of each task's losses over the rows that have its label."""
    predictions = model(inputs, training=False)
    sums = {}
    for task, values in labels.items():
        rows = np.flatnonzero(~np.isnan(values))
        outputs = predictions[task]
        if not len(rows):
            sums[task] = 0.0 * ops.sum(outputs)  # A gradient of 0.
            continue
        losses = model.loss_of(task, reduction=None)(
            values[rows, None].astype("float32"),
            ops.take(outputs, rows, axis=0),
        )
        sums[task] = ops.cast(ops.sum(losses), "float32")
    return sums


def _norms(bank: Experts, gradients: Mapping[int, np.ndarray]) -> Floats:
    """The norm of a gradient by the weights of each expert of a bank."""

    def squares(variables: Sequence[keras.Variable], axes: int) -> Any:
        """Sums of squares, `(n,)` with one axis of experts, else a number."""
        return sum(
            np.sum(
                np.square(gradients[id(v)], dtype=np.float64),
                axis=tuple(range(axes, len(v.shape))),
            )
            for v in variables
        )

    if isinstance(bank, LayerExperts):
        each = [squares(x.trainable_variables, 0) for x in bank.experts]
        return np.sqrt(np.array(each, np.float64))
    every = squares(bank.trainable_variables, 1)
    return np.sqrt(np.zeros(bank.num_experts) + every)
