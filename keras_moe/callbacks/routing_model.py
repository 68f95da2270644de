from collections.abc import Iterable

import keras
from keras import ops

from keras_moe.distribution.devices import on_all_devices
from keras_moe.layers.routing_record import RoutingRecord
from keras_moe.layers.routing_record import record_routing
from keras_moe.ops._bounded import bounded
from keras_moe.types import Structure
from keras_moe.types import Tensor


class RoutingModel(keras.Model):
    """Shares a model's layers and returns how they route, in inference mode.

    As a model of its own it is compiled as Keras compiles any prediction,
    once for all epochs, and computes no more than the routing needs.

    Attributes:
        tasks: Tuple of the tasks' names, one an output. A task of a model
            with several mixtures carries its mixture's name,
            `<mixture>_<task>`. Known once the model has been called.
        on_simplex: Tuple of booleans, whether the gate of each of them says
            that its weights lie on the simplex.

    Args:
        model: A model, or layer, that calls mixtures.

    Call arguments:
        inputs: Inputs of `model`.

    Returns:
        List with a tuple for each task and call of a mixture, empty when no
        mixture is called: float32 weights `(..., n)`; float32 `(...)`, what
        each row counts: 1, or 0 for padding; and of a gate that has
        selectors these, float32 `(..., k, n)`.

    Example:
        >>> mixture = keras_moe.layers.MMoE(
        ...     {"watch": keras_moe.layers.TopKGate(4, k=2)},
        ...     keras_moe.layers.MLPExperts(4, 8),
        ... )
        >>> routing = RoutingModel(mixture)
        >>> [(weights, counts)] = routing.predict_on_batch(np.ones((3, 5)))
        >>> weights.shape, counts.shape
        ((3, 4), (3,))
        >>> routing.tasks
        ('watch',)
    """

    def __init__(self, model: keras.layers.Layer) -> None:
        super().__init__()
        self.routed = model
        self.built = model.built  # There is nothing else to build.
        self.tasks: tuple[str, ...] = ()
        self.on_simplex: tuple[bool, ...] = ()
        if isinstance(model, keras.Model):
            self.run_eagerly = model.run_eagerly
            if not model.jit_compile:
                self.jit_compile = False

    def call(self, inputs: Structure) -> list[tuple[Tensor, ...]]:
        with record_routing() as records:
            self.routed(inputs, training=False)
        self.tasks = _name_tasks(records)
        self.on_simplex = tuple(
            bool(record.gates[task].on_simplex)
            for record in records
            for task in record.weights
        )
        return on_all_devices(
            [
                (
                    weights,
                    _counts(weights, record.masks[task]),
                    *_selectors(record, task),
                )
                for record in records
                for task, weights in record.weights.items()
            ]
        )


def _counts(weights: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return ops.ones_like(weights[..., 0])
    return ops.cast(mask, weights.dtype)


def _selectors(record: RoutingRecord, task: str) -> list[Tensor]:
    """The selectors of a task's gate, one set a row, if it has any."""
    gate, inputs = record.gates[task], record.gate_inputs[task]
    # As gates take what they are called on, under any policy.
    selectors = gate.compute_selectors(bounded(inputs))
    if selectors is None:
        return []
    leading = ops.shape(record.weights[task])[:-1]
    # A static gate's (k, n) become (..., k, n).
    return [ops.broadcast_to(selectors, (*leading, *selectors.shape[-2:]))]


def _name_tasks(records: Iterable[RoutingRecord]) -> tuple[str, ...]:
    """Gives every task of every mixture a name that no other has."""
    several = len({id(record.mixture) for record in records}) > 1
    names: dict[tuple[int, str], str] = {}
    for record in records:
        for task in record.weights:
            mixture = record.mixture.name
            prefixed = several and task != mixture
            name = f"{mixture}_{task}" if prefixed else task
            key = (id(record.mixture), task)
            if key not in names:
                names[key] = _unused(name, names.values())
    return tuple(
        names[id(record.mixture), task]
        for record in records
        for task in record.weights
    )


def _unused(name: str, taken: Iterable[str]) -> str:
    """Appends `_1`, `_2`, ... where two mixtures share a name."""
    candidate, number = name, 0
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate
