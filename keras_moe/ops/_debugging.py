"""Checks of values that a promise of ours or of a gate rests on.

They cost time, and make eager code wait for the device. So they are off, but
for those of eager JAX, which waits for its many compilations anyway, unless
the environment variable `KERAS_MOE_CHECK_VALUES` is `1`, as in the tests.
"""

import os

import keras

from keras_moe.types import Tensor

VARIABLE = "KERAS_MOE_CHECK_VALUES"


def checks_values() -> bool:
    """Returns whether promises about values are checked."""
    return os.environ.get(VARIABLE) == "1"


def require(condition: Tensor, message: str) -> None:
    """Raises an error where a condition does not hold, if that can be seen.

    A graph of TensorFlow raises it when it runs. Code that XLA compiles has no
    errors.

    Args:
        condition: Boolean scalar tensor.
        message: The error message.

    Raises:
        ValueError: If `condition` is false.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        if not tf.executing_eagerly():
            tf.debugging.Assert(condition, [message])
            return
    elif backend == "jax":
        import jax

        if isinstance(condition, jax.core.Tracer):
            return
    if not bool(condition):
        raise ValueError(message)
