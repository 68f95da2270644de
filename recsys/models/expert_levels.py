"""Calls the levels of experts of a model one after the other."""

from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_moe.layers import CGC
from keras_moe.layers import PLE
from keras_moe.layers import Experts
from keras_moe.layers import HoME
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import record_routing
from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.shared_tower import SharedTower

# The experts of a `MoE` or `MMoE`, and those beside them, or beside the
# tasks' own, that all tasks have.
ROUTED = "experts"
SHARED = "shared"


class Level(NamedTuple):
    """A level of experts, with what it was called on.

    Attributes:
        layer: The `MoE`, `MMoE` or `CGC`.
        streams: Its inputs, an array, or a dict of them as a `CGC` takes.
        weights: By output, the weights of its gate, `(rows, n)`, of the banks
            of `order` side by side.
        self_weights: By output with a gate over its own experts alone, the
            weights of these, `(rows, m)`, which come on top.
        order: By output, the banks that its gate weighs.
        own: By output that has one, its own bank.
        static: Whether a gate gives all rows the same weights by design.
    """

    layer: keras.layers.Layer
    streams: Any
    weights: dict[str, np.ndarray]
    self_weights: dict[str, np.ndarray]
    order: dict[str, list[str]]
    own: dict[str, str]
    static: bool


def expert_levels(
    model: MultiTaskModel, inputs: Mapping[str, np.ndarray]
) -> list[Level]:
    """Calls the levels, each on what the one before returns, at inference.

    Args:
        model: The model.
        inputs: As `encode` of the model returns them.

    Returns:
        The levels; none of a model without experts.
    """
    mixture = model.mixture
    if isinstance(mixture, SharedTower):
        mixture = mixture.layer
    if not isinstance(mixture, MoE | MMoE | CGC | PLE | HoME):
        return []
    parts = [
        [
            *_levels_of_step(
                model, mixture, {name: x[step] for name, x in inputs.items()}
            )
        ]
        for step in steps_of(inputs, model.rows_per_step)
    ]
    return [_joined(of_level) for of_level in zip(*parts, strict=True)]


def banks_of(layer: keras.layers.Layer) -> dict[str, Experts]:
    """The banks of experts of a level by name."""
    common = layer.shared_experts
    shared = {} if common is None else {SHARED: common}
    if isinstance(layer, CGC):
        return {**shared, **layer.group_experts, **layer.task_experts}
    return {ROUTED: layer.experts, **shared}


def weights_of(level: Level, name: str) -> dict[str, np.ndarray]:
    """By output that has them, its weights of the experts of a bank."""
    counts = {n: bank.num_experts for n, bank in banks_of(level.layer).items()}
    if not isinstance(level.layer, CGC):
        if name == ROUTED:
            return level.weights
        # Each row has these, and no gate weighs them.
        return {
            task: np.ones((len(weights), counts[name]))
            for task, weights in level.weights.items()
        }
    parts = {}
    for output, weights in level.weights.items():
        names = level.order[output]
        if name not in names:
            continue
        first = sum(counts[n] for n in names[: names.index(name)])
        parts[output] = weights[:, first : first + counts[name]]
        if level.own.get(output) == name and output in level.self_weights:
            parts[output] = parts[output] + level.self_weights[output]
    return parts


def steps_of(inputs: Mapping[str, np.ndarray], size: int) -> Iterator[slice]:
    """Rows, `size` at a time."""
    rows = len(next(iter(inputs.values())))
    return (slice(start, start + size) for start in range(0, rows, size))


def _levels_of_step(
    model: MultiTaskModel,
    mixture: keras.layers.Layer,
    inputs: Mapping[str, np.ndarray],
) -> Iterator[Level]:
    streams: Structure
    streams, gate_inputs = model.mixture_inputs(inputs, training=False)
    if isinstance(mixture, HoME):
        groups, tasks = mixture.groups, mixture.tasks
        level, outputs = _called(model, groups, streams, gate_inputs)
        yield _by_task(level, tasks.task_groups)
        streams, gate_inputs = mixture.inputs_of_tasks(outputs, gate_inputs)
        yield _called(model, tasks, streams, gate_inputs)[0]
        return
    for layer in mixture.levels if isinstance(mixture, PLE) else [mixture]:
        level, streams = _called(model, layer, streams, gate_inputs)
        yield level


def _called(
    model: MultiTaskModel,
    layer: keras.layers.Layer,
    streams: Structure,
    gate_inputs: Structure,
) -> tuple[Level, Structure]:
    """A level, and what it returns."""
    with record_routing() as records:
        outputs = layer(streams, gate_inputs, training=False)
    (record,) = records
    weights = dict(record.weights)
    if isinstance(layer, MoE):  # One gate for all tasks.
        weights = dict.fromkeys(model.tasks, weights[layer.name])
    static = any(gate.static for gate in record.gates.values())
    of_level, weights, self_weights = keras.tree.map_structure(
        ops.convert_to_numpy,
        (streams, weights, _self_weights(layer, record.gate_inputs)),
    )
    order = {o: _order(layer, o, w.shape[1]) for o, w in weights.items()}
    banks = {task: task for task in layer.task_experts} if self_weights else {}
    return (
        Level(layer, of_level, weights, self_weights, order, banks, static),
        outputs,
    )


def _self_weights(
    layer: keras.layers.Layer, gate_inputs: Mapping[str, Tensor]
) -> dict[str, Any]:
    if not isinstance(layer, CGC):
        return {}
    return {
        output: gate(gate_inputs[output], training=False)
        for output, gate in layer.self_gates.items()
    }


def _order(
    layer: keras.layers.Layer, output: str, num_experts: int
) -> list[str]:
    """The banks of the experts that the gate of an output weighs."""
    if not isinstance(layer, CGC):
        return [ROUTED]
    banks = banks_of(layer)
    # A shared gate weighs all, and the gates of an `AdaTT` or a `STEM` do.
    if num_experts == sum(bank.num_experts for bank in banks.values()):
        return list(banks)
    group = layer.task_groups.get(output)
    return [SHARED, *([] if group is None else [group]), output]


def _by_task(level: Level, group_of: Mapping[str, str]) -> Level:
    """A level of groups with the outputs of their tasks."""
    of_task = {**group_of, SHARED: SHARED}

    def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
        return {t: values[g] for t, g in of_task.items() if g in values}

    return level._replace(
        weights=renamed(level.weights),
        self_weights=renamed(level.self_weights),
        order=renamed(level.order),
        own=dict(group_of),
    )


def _joined(parts: tuple[Level, ...]) -> Level:
    """A level with the rows of all steps."""
    streams, weights, self_weights = keras.tree.map_structure(
        lambda *arrays: np.concatenate(arrays),
        *((part.streams, part.weights, part.self_weights) for part in parts),
    )
    return parts[0]._replace(
        streams=streams, weights=weights, self_weights=self_weights
    )
