import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.ops import smooth_step
from tests.gradients import gradient


def evaluate(x, gamma):
    return to_numpy(smooth_step(np.asarray(x, "float32"), gamma))


def grad(x, gamma):
    x = np.asarray(x, "float32")
    return gradient(lambda t: keras.ops.sum(smooth_step(t, gamma)), x)[0]


def test_values_by_hand():
    # -2 t³ / 8 + 3 t / 4 + 1 / 2 at t = -0.5, 0, 0.5.
    np.testing.assert_allclose(
        evaluate([-0.5, 0.0, 0.5], gamma=2.0),
        [0.15625, 0.5, 0.84375],
        rtol=1e-6,
    )


@pytest.mark.parametrize("gamma", [0.01, 0.3, 1.0, 7.0])
def test_is_exact_from_the_bounds_on(gamma):
    bounds = np.asarray([-gamma / 2, gamma / 2], "float32")
    beyond = np.asarray([-1.0, 1.0], "float32") * [1e4, np.inf]
    np.testing.assert_array_equal(evaluate(bounds, gamma), [0.0, 1.0])
    np.testing.assert_array_equal(evaluate(beyond, gamma), [0.0, 1.0])
    np.testing.assert_array_equal(grad(bounds, gamma), [0.0, 0.0])
    np.testing.assert_array_equal(grad(beyond, gamma), [0.0, 0.0])


@pytest.mark.parametrize("gamma", [0.01, 1.0, 7.0])
def test_follows_the_cubic_and_never_leaves_the_unit_interval(gamma):
    t = np.linspace(-gamma / 2, gamma / 2, 1001)
    h = evaluate(t, gamma)
    np.testing.assert_allclose(
        h, -2 * t**3 / gamma**3 + 3 * t / (2 * gamma) + 0.5, atol=1e-6
    )
    assert h.min() >= 0.0
    assert h.max() <= 1.0


def test_gradient_by_hand():
    # h'(t) = -6 t² / γ³ + 3 / (2γ).
    np.testing.assert_allclose(
        grad([0.0, 0.25], gamma=1.0), [1.5, 1.125], rtol=1e-6
    )


def test_keeps_the_dtype():
    x = keras.ops.ones((2,), "float16")
    assert keras.backend.standardize_dtype(smooth_step(x, 1).dtype) == "float16"


@pytest.mark.parametrize("gamma", [0, -1.0, float("inf"), float("nan")])
def test_refuses_a_width_that_is_not_positive(gamma):
    with pytest.raises(ValueError, match=r"`gamma` must be a finite.*Received"):
        smooth_step(np.zeros(1), gamma)


def test_refuses_a_width_that_is_no_number():
    with pytest.raises(TypeError, match=r"`gamma` must be a number.*Received"):
        smooth_step(np.zeros(1), "1")
