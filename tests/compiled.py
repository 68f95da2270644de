from collections.abc import Callable
from typing import Any

import keras
from keras import tree


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors as one of arrays, compiled where that is faster.

    JAX compiles each operation on its own otherwise, anew for each shape.
    What `function` assigns to variables is lost.
    """

    def stateless(*tensors: Any) -> Any:
        with keras.StatelessScope():
            return function(*tensors)

    if keras.backend.backend() == "jax":
        import jax

        stateless = jax.jit(stateless)

    def with_arrays(*arrays: Any) -> Any:
        tensors = [keras.ops.convert_to_tensor(array) for array in arrays]
        outputs = stateless(*tensors)
        return tree.map_structure(keras.ops.convert_to_numpy, outputs)

    return with_arrays
