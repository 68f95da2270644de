"""Gradients of several losses of one forward pass on TensorFlow."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from recsys.distribution.process_group import current_group
from recsys.distribution.process_group import share_of_sum
from recsys.tables.marks import by_rows


def recorded() -> tf.GradientTape:
    """The scope of the forward pass."""
    return tf.GradientTape(persistent=True)


def gradients(
    tape: tf.GradientTape,
    parts: tf.Tensor,
    cotangent: tf.Tensor,
    variables: Sequence[keras.Variable],
) -> list[tf.Tensor]:
    """Returns the gradients of the parts times the cotangent, summed.

    On several replicas, the mean of all.
    """
    native = [variable.value for variable in variables]
    own_gradients: list[Any] = tape.gradient(
        parts, native, output_gradients=cotangent
    )
    group = current_group()
    if group is None:
        return own_gradients
    return group.mean_gradients(own_gradients, variables, by_rows(variables))


def apply(
    optimizer: keras.optimizers.Optimizer,
    gradients: Sequence[tf.Tensor],
    variables: Sequence[keras.Variable],
) -> None:
    """Lets the optimizer take a step."""
    gradients = [share_of_sum(gradient) for gradient in gradients]
    optimizer.apply_gradients(zip(gradients, variables, strict=True))
