from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

import keras

from keras_moe.types import Tensor

# Tensors, in any structure.
Outputs = TypeVar("Outputs")


class _NestedScope(keras.StatelessScope):
    """A stateless scope that sees the values of the scope around it."""

    def get_current_value(self, variable: keras.Variable) -> Any:
        value = super().get_current_value(variable)
        if value is None and self.original_scope is not None:
            value = self.original_scope.get_current_value(variable)
        return value


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
        values: What they hold when `function` starts.

    Returns:
        The outputs of `function`, and the values it leaves in `states`.

    Raises:
        ValueError: If `function` adds a loss or assigns another variable:
            neither can leave the branch.
    """
    scope = _NestedScope(
        list(zip(states, values, strict=True)), collect_losses=True
    )
    with scope:
        outputs = function()
    if scope.losses or len(scope.state_mapping) > len(states):
        raise ValueError(
            "Sparse execution needs experts that neither add losses nor "
            "change variables when they are called, random states apart. "
            "Use execution='dense' for others."
        )
    return outputs, [scope.get_current_value(state) for state in states]
