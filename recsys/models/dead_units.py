"""Finds the units of experts that are never anything but zero."""

from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import ExitStack
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_moe.layers import Experts
from keras_moe.layers import LayerExperts
from keras_moe.types import Tensor
from recsys.models.expert_levels import steps_of
from recsys.private_names import each_layer


def dead_units(
    bank: Experts, inputs: np.ndarray, computed: np.ndarray, size: int
) -> npt.NDArray[np.float64]:
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
        for step in steps_of({"": inputs}, size)
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
        activations = []
        for expert in bank.experts:
            with _recorded_activations(expert) as outputs:
                expert(inputs, training=False)
            activations.append(_concatenated(outputs, len(inputs)))
        return activations
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
