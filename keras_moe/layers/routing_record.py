"""A record of how a model routed its inputs, kept only on request."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import keras

from keras_moe.types import Tensor


@dataclass(frozen=True)
class RoutingRecord:
    """The routing decisions of one call of a mixture.

    Attributes:
        mixture: The `MoE`, `MMoE` or `CGC` that was called.
        weights: Per task, float32 weights `(..., n)` with the same leading
            dimensions for every task (a static gate's weights are repeated).
            The tasks of an `MMoE` with a list of gates are "0", "1", ...;
            that of an `MoE` is the mixture's name; a `CGC` with a shared gate
            has "shared" as well.
        masks: Per task, a boolean tensor `(...)`, false for padding, or
            `None` where the inputs carry no mask.
        gates: Per task, the `Gate` that the weights are of.
        gate_inputs: Per task, what that gate was called on.
        inputs: What the experts of a `MoE` or `MMoE` compute on, `(...,
            *features)`; `None` of a `CGC`, whose banks may have different
            ones.
    """

    mixture: keras.layers.Layer
    weights: dict[str, Tensor]
    masks: dict[str, Tensor | None]
    gates: dict[str, keras.layers.Layer]
    gate_inputs: dict[str, Tensor]
    inputs: Tensor | None = None


_records: ContextVar[list[RoutingRecord] | None] = ContextVar(
    "routing_records", default=None
)


@contextmanager
def record_routing() -> Iterator[list[RoutingRecord]]:
    """Collects a `RoutingRecord` from every mixture called in its scope.

    A mixture among another's experts is not recorded. Meant for eager calls,
    `model(x, training=False)`, or for a function that is compiled as a whole
    and returns the weights: what is recorded while a graph is traced belongs
    to that graph.

    Yields:
        The list that the records are appended to, in order of the calls.

    Example:
        >>> gate = keras_moe.layers.TopKGate(4, k=2)
        >>> mixture = keras_moe.layers.MoE(
        ...     gate, keras_moe.layers.MLPExperts(4, 8)
        ... )
        >>> with record_routing() as records:
        ...     outputs = mixture(np.ones((3, 5)))
        >>> [tuple(r.weights[mixture.name].shape) for r in records]
        [(3, 4)]
    """
    records: list[RoutingRecord] = []
    token = _records.set(records)
    try:
        yield records
    finally:
        _records.reset(token)


@contextmanager
def pause_recording() -> Iterator[None]:
    """Keeps what is called in its scope out of the record.

    Experts may hold mixtures themselves. What those decide in a branch or a
    loop of the graph, on blocks of rows, cannot leave it.
    """
    token = _records.set(None)
    try:
        yield
    finally:
        _records.reset(token)


def record(
    mixture: keras.layers.Layer,
    weights: dict[str, Tensor],
    masks: dict[str, Tensor | None],
    gates: dict[str, keras.layers.Layer],
    gate_inputs: dict[str, Tensor],
    inputs: Tensor | None = None,
) -> None:
    """Adds a record, if records are kept."""
    records = _records.get()
    if records is not None:
        records.append(
            RoutingRecord(mixture, weights, masks, gates, gate_inputs, inputs)
        )
