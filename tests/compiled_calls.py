"""Calls of layers that JAX compiles as one program each.

JAX compiles each operation of a call on its own otherwise, anew for each shape:
a hundred programs for a mixture, which take several times as long as the one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import keras
import numpy as np
import pytest
from keras import tree

_CALL = keras.Operation.__call__


# By layer; by its arguments other than arrays.
Programs = WeakKeyDictionary[Any, dict[str, Any]]


@contextmanager
def compiled_calls(programs: Programs) -> Iterator[None]:
    """Compiles the outermost call of a layer with arrays, on JAX.

    A layer cannot raise an error because of values there, nor keep tensors
    other than its outputs, its losses and the values of its variables.

    Args:
        programs: Those of earlier calls, and then of these.
    """
    inside = False

    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        leaves = tree.flatten((args, kwargs))
        if inside or not _is_eager(layer, leaves):
            return _CALL(layer, *args, **kwargs)
        places = [i for i, leaf in enumerate(leaves) if _is_array(leaf)]
        arrays = [leaves[place] for place in places]
        for place in places:
            leaves[place] = "an array"
        rest = tree.pack_sequence_as((args, kwargs), leaves)
        of_layer = programs.setdefault(layer, {})
        if (key := repr(rest)) not in of_layer:
            of_layer[key] = _program(layer, rest, places)
        variables = layer.variables
        inside = True
        try:
            outputs, changes, losses = of_layer[key](
                [variable.value for variable in variables], arrays
            )
        finally:
            inside = False
        for variable, value in zip(variables, changes, strict=True):
            if value is not None:
                variable.assign(value)
        for loss in losses:
            layer.add_loss(loss)
        return outputs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.Operation, "__call__", call)
        yield


def _program(layer: Any, arguments: Any, places: list[int]) -> Any:
    """The call of a layer as a function of its variables and arrays.

    Args:
        layer: The layer.
        arguments: Of its call, by position and by name.
        places: Where arrays stand among them, flattened.
    """
    import jax

    def run(values: list[Any], arrays: list[Any]) -> Any:
        leaves = tree.flatten(arguments)
        for place, array in zip(places, arrays, strict=True):
            leaves[place] = array
        args, kwargs = tree.pack_sequence_as(arguments, leaves)
        variables = layer.variables
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(mapping, collect_losses=True) as scope:
            outputs = _CALL(layer, *args, **kwargs)
        after = [scope.get_current_value(variable) for variable in variables]
        changes = [
            None if value is before else value
            for value, before in zip(after, values, strict=True)
        ]
        return outputs, changes, scope.losses

    return jax.jit(run)


def _is_array(value: Any) -> bool:
    import jax

    return isinstance(value, jax.Array | np.ndarray)


def _is_eager(layer: Any, arguments: list[Any]) -> bool:
    """Whether it is a layer, called with arrays while nothing is traced."""
    import jax

    if not isinstance(layer, keras.layers.Layer):
        return False
    tensors = [*arguments, *(variable.value for variable in layer.variables)]
    return any(map(_is_array, tensors)) and not any(
        isinstance(tensor, jax.core.Tracer | keras.KerasTensor)
        for tensor in tensors
    )
