"""Measures what each expert of a model does for each task.

That is its load, the gradient that reaches it, and how many of its units are
never anything but zero.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import ExitStack
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_moe.layers import CGC
from keras_moe.layers import PLE
from keras_moe.layers import AdaTT
from keras_moe.layers import Experts
from keras_moe.layers import LayerExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import record_routing
from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.metrics import ExpertUse
from recsys.models.expert_use import batch_use
from recsys.models.expert_use import whole_use
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.shared_tower import SharedTower
from recsys.private_names import each_layer
from recsys.weighting.loss_gradients import loss_gradients

Floats = npt.NDArray[np.float64]

# The experts of a `MoE` or `MMoE`, and those beside them, or beside the
# tasks' own, that all tasks have.
ROUTED = "experts"
SHARED = "shared"


@dataclass(frozen=True, eq=False)
class ExpertBank:
    """What the experts of one bank do.

    Attributes:
        level: Number of the level, 1 but for a `PLE`.
        name: "experts", or "shared" for those that all rows take, of a `MoE`
            or `MMoE`; of a `CGC` or `PLE`, "shared" or the task they are of.
        load: By output that has a gate over the experts, a task or the
            "shared" stream of a `PLE`, the share of the rows that give each
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


class _Level(NamedTuple):
    """A level of experts, with what it was called on.

    Attributes:
        layer: The `MoE`, `MMoE` or `CGC`.
        streams: Its inputs, an array, or a dict of them as a `CGC` takes.
        weights: By output, the weights of its gate, `(rows, n)`.
        static: Whether a gate gives all rows the same weights by design.
    """

    layer: keras.layers.Layer
    streams: Any
    weights: dict[str, np.ndarray]
    static: bool


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
    levels = _levels(model, inputs)
    experts = [bank for x in levels for bank in _banks(x.layer).values()]
    gradients = _gradients(model, inputs, labels, task_weights, experts)
    of_bank = {
        id(bank): gradient
        for bank, gradient in zip(experts, gradients, strict=True)
    }
    banks = [
        _measured(number, name, level, of_bank[id(bank)], model.rows_per_step)
        for number, level in enumerate(levels, start=1)
        for name, bank in _banks(level.layer).items()
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
    level: _Level,
    gradient: dict[str, Floats],
    size: int,
) -> ExpertBank:
    """Measures the bank of that name of a level, `size` rows at a time."""
    weights = _weights_of(level, name)
    streams = level.streams
    return ExpertBank(
        number,
        name,
        {output: (w != 0).mean(axis=0) for output, w in weights.items()},
        {output: w.mean(axis=0) for output, w in weights.items()},
        gradient,
        _dead_units(
            _banks(level.layer)[name],
            streams[name] if isinstance(streams, dict) else streams,
            np.any([w != 0 for w in weights.values()], axis=0),
            size,
        ),
    )


def _levels(
    model: MultiTaskModel, inputs: Mapping[str, np.ndarray]
) -> list[_Level]:
    """Calls the levels one after the other; none has no experts."""
    mixture = model.mixture
    if isinstance(mixture, SharedTower):
        mixture = mixture.layer
    if not isinstance(mixture, MoE | MMoE | CGC | PLE):
        return []
    layers = mixture.levels if isinstance(mixture, PLE) else [mixture]
    steps = [
        _levels_of_step(model, layers, {k: x[step] for k, x in inputs.items()})
        for step in _steps(inputs, model.rows_per_step)
    ]
    return [_joined(parts) for parts in zip(*steps, strict=True)]


def _levels_of_step(
    model: MultiTaskModel,
    layers: Sequence[keras.layers.Layer],
    inputs: Mapping[str, np.ndarray],
) -> list[_Level]:
    streams: Structure
    streams, gate_inputs = model.mixture_inputs(inputs, training=False)
    levels = []
    for layer in layers:
        with record_routing() as records:
            outputs = layer(streams, gate_inputs, training=False)
        (record,) = records
        weights = dict(record.weights)
        if isinstance(layer, MoE):  # One gate for all tasks.
            weights = dict.fromkeys(model.tasks, weights[layer.name])
        static = any(gate.static for gate in record.gates.values())
        inputs_of_level, weights = keras.tree.map_structure(
            ops.convert_to_numpy, (streams, weights)
        )
        levels.append(_Level(layer, inputs_of_level, weights, static))
        streams = outputs
    return levels


def _joined(parts: Sequence[_Level]) -> _Level:
    """A level with the rows of all steps."""
    streams, weights = keras.tree.map_structure(
        lambda *arrays: np.concatenate(arrays),
        *((part.streams, part.weights) for part in parts),
    )
    return parts[0]._replace(streams=streams, weights=weights)


def _steps(inputs: Mapping[str, np.ndarray], size: int) -> Iterator[slice]:
    rows = len(next(iter(inputs.values())))
    return (slice(start, start + size) for start in range(0, rows, size))


def _banks(layer: keras.layers.Layer) -> dict[str, Experts]:
    """The banks of experts of a level by name."""
    common = layer.shared_experts
    shared = {} if common is None else {SHARED: common}
    if isinstance(layer, CGC):
        return {**shared, **layer.task_experts}
    return {ROUTED: layer.experts, **shared}


def _weights_of(level: _Level, name: str) -> dict[str, np.ndarray]:
    """By output, its gate's weights of the experts of a bank, `(rows, m)`."""
    layer = level.layer
    counts = {n: bank.num_experts for n, bank in _banks(layer).items()}
    if not isinstance(layer, CGC):
        if name == ROUTED:
            return level.weights
        # Each row has these, and no gate weighs them.
        return {
            task: np.ones((len(weights), counts[name]))
            for task, weights in level.weights.items()
        }
    found = {}
    for output, weights in level.weights.items():
        # In the order of a `CGC`, whose shared gate weighs all experts.
        weighs_all = weights.shape[1] == sum(counts.values())
        names = [*counts] if weighs_all else [SHARED, output]
        if name in names:
            first = sum(counts[n] for n in names[: names.index(name)])
            found[output] = weights[:, first : first + counts[name]]
    if isinstance(layer, AdaTT) and name in found:
        # Each row of a task has its own experts, whatever the gate says.
        gated = ops.convert_to_tensor(found[name])
        native = layer.self_gates[name].compute_weights(gated, False, None)
        found[name] = ops.convert_to_numpy(gated + native)
    return found


def _use(weights: np.ndarray) -> ExpertUse:
    counts = ops.ones((len(weights),), dtype="float32")
    use = batch_use(ops.convert_to_tensor(weights), counts)
    arrays = {name: ops.convert_to_numpy(value) for name, value in use.items()}
    return whole_use(arrays, len(weights))


def _dead_units(
    bank: Experts, inputs: np.ndarray, computed: np.ndarray, size: int
) -> Floats:
    """The share of units that are zero on all rows that an expert computes.

    Args:
        bank: The experts.
        inputs: Their inputs, `(rows, ...)`.
        computed: Boolean array `(rows, n)`, the rows that each one computes.
        size: How many rows to compute at once.
    """
    steps = [
        [
            np.any(units & rows[:, None], axis=0)
            for units, rows in zip(
                _nonzero_units(bank, inputs[step]),
                computed[step].T,
                strict=True,
            )
        ]
        for step in _steps({"": inputs}, size)
    ]
    live = [np.any(parts, axis=0) for parts in zip(*steps, strict=True)]
    return np.array(
        [
            1 - units.mean() if units.size and rows.any() else np.nan
            for units, rows in zip(live, computed.T, strict=True)
        ]
    )


def _nonzero_units(bank: Experts, inputs: np.ndarray) -> list[np.ndarray]:
    """For each expert, whether its units are not zero, `(rows, units)`.

    All experts compute all rows. A unit of a convolution is a channel.
    """
    if isinstance(bank, LayerExperts):
        found = []
        for expert in bank.experts:
            with _recorded_activations(expert) as outputs:
                expert(inputs, training=False)
            found.append(_concatenated(outputs, len(inputs)))
        return found
    with _recorded_activations(bank) as outputs:
        bank(inputs, training=False)
    return [
        _concatenated([values[:, expert] for values in outputs], len(inputs))
        for expert in range(bank.num_experts)
    ]


def _concatenated(outputs: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """Nonzero units of layers, each `(rows, ..., units)`, side by side."""
    nonzero = [
        np.any(values != 0, axis=tuple(range(1, values.ndim - 1)))
        for values in outputs
    ]
    return np.concatenate([np.zeros((rows, 0), bool), *nonzero], axis=1)


@contextmanager
def _recorded_activations(
    layer: keras.layers.Layer,
) -> Iterator[list[np.ndarray]]:
    """Collects what the activations in a layer return, in order of the calls.

    The functions are replaced for the while, whatever else layers compute
    around them. Those of a linear layer are left out.
    """
    outputs: list[np.ndarray] = []

    def recording(activation: Any) -> Any:
        if activation in (None, keras.activations.linear):
            return activation

        def record(inputs: Tensor) -> Tensor:
            values = activation(inputs)
            outputs.append(ops.convert_to_numpy(values))
            return values

        return record

    with ExitStack() as restored:
        for part in each_layer(layer):
            for name in ("activation", "activations"):
                before = getattr(part, name, None)
                if before is None:
                    continue
                restored.callback(setattr, part, name, before)
                changed = (
                    [*map(recording, before)]
                    if isinstance(before, list)
                    else recording(before)
                )
                setattr(part, name, changed)
        yield outputs


def _gradients(
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
    for step in _steps(inputs, model.rows_per_step) if variables else ():
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
