from collections.abc import Callable
from collections.abc import Sequence
from typing import TypeVar

import keras
from keras import ops

from keras_moe.distribution.devices import device_index
from keras_moe.distribution.devices import map_over_devices
from keras_moe.distribution.devices import max_over_devices
from keras_moe.private_names import NestedScope
from keras_moe.types import Tensor

# Tensors, in any structure.
Outputs = TypeVar("Outputs")

# How far apart the seeds of two devices are; those of a device's blocks, which
# count from 0, lie between.
SEED_STRIDE = 1_000_000_007


def random_states(layer: keras.layers.Layer) -> list[keras.Variable]:
    """The states of all random generators in `layer`: its only integers."""
    return [
        variable
        for variable in layer.non_trainable_variables
        if keras.backend.is_int_dtype(variable.dtype)
    ]


def run_isolated(
    function: Callable[[], Outputs],
    states: Sequence[keras.Variable],
    values: Sequence[Tensor],
) -> tuple[Outputs, list[Tensor]]:
    """Runs `function` without changing a variable; returns what it would set.

    A variable that changes inside a branch or loop of a compiled graph leaks
    that graph's tensors (JAX refuses it), so the random states go in and come
    out as values.

    Args:
        function: Called without arguments.
        states: The variables that `function` may assign.
        values: Their values when `function` starts.

    Returns:
        The outputs of `function`, and the values it leaves in `states`.

    Raises:
        ValueError: If `function` adds a loss or assigns another variable:
            neither can leave the branch.
    """
    scope = NestedScope(
        list(zip(states, values, strict=True)), collect_losses=True
    )
    with scope:
        outputs = function()
    if scope.holds_more_than(states):
        raise ValueError(
            "Sparse execution needs experts whose call neither adds losses "
            "nor changes variables other than random states. "
            "Use execution='dense' for others."
        )
    return outputs, [scope.get_current_value(state) for state in states]


def variables_but(
    states: Sequence[keras.Variable], layer: keras.layers.Layer
) -> list[keras.Variable]:
    """All variables of `layer` that are not among `states`."""
    of_states = {id(state) for state in states}
    return [v for v in layer.variables if id(v) not in of_states]


def run_on_values(
    function: Callable[[], Outputs],
    weights: Sequence[keras.Variable],
    values: Sequence[Tensor],
    states: Sequence[keras.Variable],
    starts: Sequence[Tensor],
) -> tuple[Outputs, list[Tensor]]:
    """Runs `function` as `run_isolated`, with `values` for its `weights`.

    Args:
        function: Called without arguments.
        weights: All variables that `function` reads and does not assign.
        values: The values it reads.
        states: The variables that `function` may assign.
        starts: Their values when `function` starts.
    """
    scope = NestedScope()
    # Keras itself would refuse those of some experts as too few.
    scope.give(weights, values)
    with scope:
        return run_isolated(function, states, starts)


def run_on_devices(
    function: Callable[..., Outputs],
    layer: keras.layers.Layer,
    rows: Sequence[Tensor],
    expert_axis: str | None = None,
) -> Outputs:
    """Runs `function`, which calls `layer`, on each device's rows.

    Each device draws its own random numbers, so dropout differs from that on
    one device; nothing else does.

    Args:
        function: Called with tensors, the rows of one device. It returns
            tensors with as many rows.
        layer: The only layer whose variables `function` reads.
        rows: Tensors `(N, ...)`.
        expert_axis: The axis of devices along which the weights of `layer`
            are split. Defaults to `None`: each device has them all.

    Returns:
        The outputs of `function` for all rows.

    Raises:
        ValueError: If `function` adds a loss or assigns a variable other
            than a random state.
    """
    states = random_states(layer)
    weights = variables_but(states, layer)

    def on_device(
        rows: list[Tensor], starts: list[Tensor], values: list[Tensor]
    ) -> tuple[Outputs, list[Tensor]]:
        # A random state is (seed, counter).
        seed = SEED_STRIDE * ops.cast(device_index(), "uint32")
        offset = ops.stack([seed, 0 * seed])  # (2,)
        starts = [start + ops.cast(offset, start.dtype) for start in starts]
        outputs, ends = run_on_values(
            lambda: function(*rows), weights, values, states, starts
        )
        # Experts without rows draw nothing on a device.
        draws = [
            max_over_devices(end - start)
            for end, start in zip(ends, starts, strict=True)
        ]
        return outputs, draws

    starts, values = [[v.value for v in vs] for vs in (states, weights)]
    outputs, draws = map_over_devices(
        on_device, rows, starts, values, expert_axis
    )
    for state, drawn in zip(states, draws, strict=True):
        state.assign(state.value + drawn)
    return outputs
