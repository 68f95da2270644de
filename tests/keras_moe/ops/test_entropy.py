import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.ops import entropy
from tests.gradients import gradient


def test_values_by_hand():
    weights = np.array([[1.0, 0.0], [0.5, 0.5]], "float32")
    h = to_numpy(entropy(weights))
    np.testing.assert_allclose(h, [0.0, np.log(2)], atol=5e-6)


@pytest.mark.parametrize("axis", [0, -1, (0, 2), None])
def test_sums_over_the_given_axes(axis, rng):
    weights = rng.uniform(size=(2, 3, 4)).astype("float32")
    expected = np.sum(-weights * np.log(weights + 1e-6), axis=axis)
    np.testing.assert_allclose(
        to_numpy(entropy(weights, axis=axis)),
        expected,
        rtol=1e-5,
    )


def test_gradient_is_finite_at_zero():
    (grad,) = gradient(entropy, np.array([0.0, 1.0], "float32"))
    # -log(a + 1e-6) - a / (a + 1e-6).
    np.testing.assert_allclose(grad, [-np.log(1e-6), -1.0], rtol=1e-4)
