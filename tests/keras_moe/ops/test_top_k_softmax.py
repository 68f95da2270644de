import numpy as np
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.ops import top_k_softmax
from tests.gradients import gradient

LOGITS = np.log(np.array([1.0, 5.0, 2.0], "float32"))


def test_keeps_the_probabilities_of_the_k_largest():
    np.testing.assert_allclose(
        to_numpy(top_k_softmax(LOGITS, k=2)), [0, 5 / 8, 2 / 8], rtol=1e-6
    )


def test_ties_go_to_the_lower_index():
    weights = to_numpy(top_k_softmax(np.zeros((2, 4), "float32"), k=1))
    np.testing.assert_array_equal(weights, [[0.25, 0, 0, 0]] * 2)


def test_the_gradient_is_that_of_the_softmax_even_for_one():
    (grad,) = gradient(lambda logits: top_k_softmax(logits, k=1)[1], LOGITS)
    g = np.array([1, 5, 2]) / 8
    np.testing.assert_allclose(
        grad, g[1] * (np.array([0, 1, 0]) - g), rtol=1e-5
    )


def test_is_finite_for_large_logits():
    logits = np.array([1e30, -1e30, 0.0], "float32")
    np.testing.assert_array_equal(
        to_numpy(top_k_softmax(logits, k=2)), [1, 0, 0]
    )
    (grad,) = gradient(lambda x: top_k_softmax(x, k=2)[0], logits)
    assert np.isfinite(grad).all()
