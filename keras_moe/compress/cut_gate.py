from collections.abc import Sequence

from keras import ops

from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.gates.grouped_gate import GroupedGate
from keras_moe.types import Tensor


def cut_gate(gate: Gate, kept: Sequence[int], fallback: int) -> Gate:
    """Returns a gate over some of the experts of another.

    Args:
        gate: A built gate.
        kept: The experts that remain, in the order of the new gate.
        fallback: Of these, by its number in the new gate, the one for rows
            that lose all their experts.

    Returns:
        Where the gate has scores for each expert on its own (`separable`), a
        gate of its class with these scores, which selects among them anew.
        Otherwise a `GroupedGate`, which shares the weight of the others in
        proportion.
    """
    if not gate.separable:
        return GroupedGate(
            gate, [[expert] for expert in kept], fallback, name=gate.name
        )
    config = {**gate.get_config(), "num_experts": len(kept)}
    if config.get("k") is not None:
        config["k"] = min(config["k"], len(kept))
    cut: Gate = type(gate).from_config(config)
    cut.build(tuple(gate.get_build_config()["input_shape"]))
    for old, new in zip(gate.weights, cut.weights, strict=True):
        new.assign(_entries(old, tuple(new.shape), kept))
    return cut


def _entries(
    weight: Tensor, shape: tuple[int, ...], kept: Sequence[int]
) -> Tensor:
    """The weight, or what the axis of experts has of it for those kept."""
    values = ops.convert_to_tensor(weight)
    for axis, (old, new) in enumerate(zip(weight.shape, shape, strict=True)):
        if old != new:
            values = ops.take(values, list(kept), axis=axis)
    return values
