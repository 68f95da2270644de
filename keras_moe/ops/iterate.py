from collections.abc import Callable
from typing import Any

import keras
from keras import ops


def iterate(step: Callable[[Any], Any], value: Any, times: int) -> Any:
    """Applies `step` to `value` a static number of times, in one loop.

    Reverse mode differentiates it on every backend, XLA included, at the
    compile time of a single step: unrolled, a hundred steps take minutes.

    Args:
        step: Function of a tensor that returns one of the same shape.
        value: The tensor to start from.
        times: Integer `>= 0`.

    Returns:
        The tensor after the last step.

    Example:
        >>> float(iterate(lambda value: 2.0 * value, np.ones(()), times=5))
        32.0
    """
    value = ops.convert_to_tensor(value)
    if keras.backend.backend() == "tensorflow":
        # XLA differentiates a loop of TensorFlow only where its bound is
        # given, which `fori_loop` does not do.
        return ops.while_loop(
            lambda i, _: i < times,
            lambda i, current: (i + 1, step(current)),
            (0, value),
            maximum_iterations=times,
        )[1]
    return ops.fori_loop(0, times, lambda _, current: step(current), value)
