import keras
import numpy as np
import pytest

from keras_moe.ops._iterate import iterate
from tests.gradients import gradient


def square(value):
    return value * value


@pytest.mark.parametrize(("times", "expected"), [(0, 3.0), (1, 9.0), (2, 81.0)])
def test_applies_the_step_so_many_times(times, expected):
    assert float(iterate(square, np.float32(3.0), times)) == expected


def test_is_differentiable():
    # x^8 has the derivative 8 x^7.
    (grad,) = gradient(lambda x: iterate(square, x, 3), np.float32(1.5))
    np.testing.assert_allclose(grad, 8 * 1.5**7, rtol=1e-6)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="on JAX everything runs under XLA, on PyTorch nothing does",
)
def test_xla_differentiates_it():
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def grad(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = iterate(square, x, 3)
        return tape.gradient(value, x)

    np.testing.assert_allclose(grad(tf.constant(1.5)), 8 * 1.5**7, rtol=1e-6)
