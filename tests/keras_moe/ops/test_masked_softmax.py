import numpy as np
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.ops import masked_softmax
from tests.gradients import gradient

LOGITS = np.array([1.0, 5.0, 2.0], "float32")
MASK = np.array([True, False, True])


def test_is_the_softmax_of_the_kept_entries():
    weights = to_numpy(masked_softmax(LOGITS, MASK))
    first = 1 / (1 + np.e)
    np.testing.assert_allclose(weights, [first, 0.0, 1 - first], rtol=1e-6)
    assert weights[1] == 0.0


def test_one_softmax_may_run_over_two_axes(rng):
    logits = rng.normal(size=(2, 3, 4)).astype("float32")
    mask = rng.uniform(size=(2, 3, 4)) < 0.5
    unnormalized = np.where(mask, np.exp(logits), 0.0)
    np.testing.assert_allclose(
        to_numpy(masked_softmax(logits, mask, axis=(-2, -1))),
        unnormalized / unnormalized.sum((1, 2), keepdims=True),
        rtol=1e-5,
    )


def test_masked_entries_get_no_gradient():
    def first(logits):
        return masked_softmax(logits, MASK)[0]

    (grad,) = gradient(first, LOGITS)
    product = np.e / (1 + np.e) ** 2
    np.testing.assert_allclose(grad, [product, 0.0, -product], rtol=1e-5)


def test_is_finite_for_large_logits():
    logits = np.array([1e30, -1e30, 1e30], "float32")

    def first(logits):
        return masked_softmax(logits, MASK)[0]

    assert float(first(logits)) == 0.5
    assert np.isfinite(gradient(first, logits)[0]).all()
