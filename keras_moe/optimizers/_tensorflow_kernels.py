"""TensorFlow's kernels of optimizers: one pass over a weight and its slots.

They take variables, run on all processors, and are compiled by XLA as well.
"""

import math

import keras
import tensorflow as tf

from keras_moe.private_names import apply_adagrad
from keras_moe.private_names import apply_adam
from keras_moe.types import FloatLike
from keras_moe.types import IntegerLike


def takes(variable: keras.Variable, gradient: tf.Tensor) -> bool:
    """Returns whether the kernels compute a weight's step as Keras does.

    Not of gradients of rows, nor of half precision: Keras rounds there after
    each operation.

    Args:
        variable: The weight.
        gradient: Its gradient.
    """
    return variable.dtype == "float32" and isinstance(gradient, tf.Tensor)


def adam(
    variable: keras.Variable,
    momentum: keras.Variable,
    velocity: keras.Variable,
    gradient: tf.Tensor,
    learning_rate: FloatLike,
    step: IntegerLike,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> None:
    """Changes a weight and its slots by a step of Adam.

    Args:
        variable: The weight.
        momentum: Its first moment.
        velocity: Its second moment.
        gradient: Its gradient.
        learning_rate: The learning rate.
        step: Number of the step, from 1 on.
        beta_1: Decay rate of the first moment.
        beta_2: Decay rate of the second moment.
        epsilon: Term added to the divisor.
    """
    learning_rate = tf.cast(learning_rate, tf.float32)
    step = tf.cast(step, tf.float32)
    beta_2_power = tf.pow(tf.cast(beta_2, tf.float32), step)
    if 0 < beta_2 < 1:
        # The kernel's 1 - beta_2 is of float32 numbers, off by up to 3e-5 where
        # beta_2 is 0.999, and with it all second moments at first. Here the
        # steps become those of the moments that Keras has.
        exact = -tf.math.expm1(step * math.log(beta_2))  # 1 - beta_2^step
        learning_rate *= tf.sqrt((1 - beta_2_power) / exact)
    apply_adam(
        var=_native(variable).handle,
        m=momentum.value.handle,
        v=velocity.value.handle,
        beta1_power=tf.pow(tf.cast(beta_1, tf.float32), step),
        beta2_power=beta_2_power,
        lr=learning_rate,
        beta1=beta_1,
        beta2=beta_2,
        epsilon=epsilon,
        grad=tf.cast(gradient, tf.float32),
    )


def adagrad(
    variable: keras.Variable,
    accumulator: keras.Variable,
    gradient: tf.Tensor,
    learning_rate: FloatLike,
    epsilon: float,
) -> None:
    """Changes a weight and its slot by a step of Adagrad.

    Args:
        variable: The weight.
        accumulator: Its sum of squared gradients.
        gradient: Its gradient.
        learning_rate: The learning rate.
        epsilon: Term added to the root of the sum.
    """
    apply_adagrad(
        var=_native(variable).handle,
        accum=accumulator.value.handle,
        lr=tf.cast(learning_rate, tf.float32),
        epsilon=epsilon,
        grad=tf.cast(gradient, tf.float32),
    )


def _native(variable: "keras.Variable | tf.Variable") -> tf.Variable:
    return variable.value if isinstance(variable, keras.Variable) else variable
