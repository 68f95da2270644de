"""Measures what each expert of a model does for each task.

That is its load, the gradient that reaches it, and how many of its units are
never anything but zero.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_moe.layers import Experts
from keras_moe.layers import LayerExperts
from keras_moe.types import Tensor
from recsys.metrics import ExpertUse
from recsys.models.dead_units import dead_units
from recsys.models.expert_levels import Level
from recsys.models.expert_levels import banks_of
from recsys.models.expert_levels import expert_levels
from recsys.models.expert_levels import steps_of
from recsys.models.expert_levels import weights_of
from recsys.models.expert_use import batch_use
from recsys.models.expert_use import whole_use
from recsys.models.multi_task_model import MultiTaskModel
from recsys.weighting.loss_gradients import loss_gradients

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ExpertBank:
    """What the experts of one bank do.

    Attributes:
        level: Number of the level, 1 but for a `PLE` or a `HoME`.
        name: "experts", or "shared" for those that all rows take, of a `MoE`
            or `MMoE`; of a `CGC`, `PLE` or `HoME`, "shared" or the task or the
            group that they are of.
        load: By output that has a gate over the experts, a task or the
            "shared" stream of a level, the share of the rows that give each
            expert weight, `(n,)`.
        weight: By output, the mean weight of each expert, `(n,)`.
        gradient: By task, the norm of the gradient of its loss, times its
            weight, by the trainable weights of each expert, `(n,)`.
        dead_units: Share of the units of each expert that are zero on all rows
            that the expert computes, `(n,)`. NaN where it computes none, or
            has no activations.
    """

    level: int
    name: str
    load: dict[str, Floats]
    weight: dict[str, Floats]
    gradient: dict[str, Floats]
    dead_units: Floats

    @property
    def dead(self) -> npt.NDArray[np.bool_]:
        """Experts that no row gives weight, `(n,)`."""
        return ~np.any([load > 0 for load in self.load.values()], axis=0)


@dataclass(frozen=True, eq=False)
class ExpertDiagnosis:
    """What the experts and gates of a model do on some rows.

    Attributes:
        rows: Number of rows.
        banks: The banks of experts; none for a model without experts.
        use: By output, the use of experts on each level that has it.
        static: Whether a gate gives all rows the same weights by design.
    """

    rows: int
    banks: list[ExpertBank]
    use: dict[str, list[ExpertUse]]
    static: bool

    def gradient_shares(self) -> dict[str, float]:
        """The share of each task in the gradient of the experts in common.

        Of the experts that several outputs have gates over, all as one vector:
        the norm of a task's gradient, divided by the sum of all tasks' norms.

        Returns:
            By task. Empty where no experts are in common, or no gradient is.
        """
        common = [bank for bank in self.banks if len(bank.load) > 1]
        norms = {
            task: float(
                np.sqrt(sum(np.sum(b.gradient[task] ** 2) for b in common))
            )
            for task in (common[0].gradient if common else ())
        }
        total = sum(norms.values())
        if not total > 0:
            return {}
        return {task: norm / total for task, norm in norms.items()}


def diagnose(
    model: MultiTaskModel,
    inputs: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray],
    task_weights: Mapping[str, float],
) -> ExpertDiagnosis:
    """Measures the experts of a model, as they are at inference.

    Args:
        model: The model.
        inputs: As `encode` of the model returns them.
        labels: By task, float array `(rows,)`, NaN where missing.
        task_weights: By task, the weight of its loss.
    """
    levels = expert_levels(model, inputs)
    experts = [bank for x in levels for bank in banks_of(x.layer).values()]
    gradients = gradient_norms(model, inputs, labels, task_weights, experts)
    of_bank = {
        id(bank): gradient
        for bank, gradient in zip(experts, gradients, strict=True)
    }
    banks = [
        _measured(number, name, level, of_bank[id(bank)], model.rows_per_step)
        for number, level in enumerate(levels, start=1)
        for name, bank in banks_of(level.layer).items()
    ]
    use: dict[str, list[ExpertUse]] = {}
    for level in levels:
        for output, values in level.weights.items():
            use.setdefault(output, []).append(_use(values))
    rows = len(next(iter(inputs.values())))
    return ExpertDiagnosis(rows, banks, use, any(x.static for x in levels))


def _measured(
    number: int,
    name: str,
    level: Level,
    gradient: dict[str, Floats],
    size: int,
) -> ExpertBank:
    """Measures the bank of that name of a level, `size` rows at a time."""
    weights = weights_of(level, name)
    streams = level.streams
    return ExpertBank(
        number,
        name,
        {output: (w != 0).mean(axis=0) for output, w in weights.items()},
        {output: w.mean(axis=0) for output, w in weights.items()},
        gradient,
        dead_units(
            banks_of(level.layer)[name],
            streams[name] if isinstance(streams, dict) else streams,
            np.any([w != 0 for w in weights.values()], axis=0),
            size,
        ),
    )


def _use(weights: np.ndarray) -> ExpertUse:
    counts = ops.ones((len(weights),), dtype="float32")
    use = batch_use(ops.convert_to_tensor(weights), counts)
    arrays = {name: ops.convert_to_numpy(value) for name, value in use.items()}
    return whole_use(arrays, len(weights))


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

        gradients = loss_gradients(losses, variables)
        if total:
            gradients = [
                [a + b for a, b in zip(*both, strict=True)]
                for both in zip(total, gradients, strict=True)
            ]
        total = gradients
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
        sums = [squares(x.trainable_variables, 0) for x in bank.experts]
        return np.sqrt(np.array(sums, np.float64))
    every = squares(bank.trainable_variables, 1)
    return np.sqrt(np.zeros(bank.num_experts) + every)
