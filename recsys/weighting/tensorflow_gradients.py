"""How TensorFlow differentiates several losses of one forward pass."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf


def recorded() -> tf.GradientTape:
    """The scope of the forward pass."""
    return tf.GradientTape(persistent=True)


def gradients(
    tape: tf.GradientTape,
    parts: Any,
    cotangent: Any,
    variables: Sequence[keras.Variable],
) -> list[Any]:
    """Returns the gradients of the parts times the cotangent, summed."""
    native = [variable.value for variable in variables]
    found: list[Any] = tape.gradient(parts, native, output_gradients=cotangent)
    return found


def apply(
    optimizer: keras.optimizers.Optimizer,
    gradients: Sequence[Any],
    variables: Sequence[keras.Variable],
) -> None:
    """Lets the optimizer take a step."""
    optimizer.apply_gradients(zip(gradients, variables, strict=True))
