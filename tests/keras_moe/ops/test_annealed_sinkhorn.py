import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy
from scipy.optimize import linear_sum_assignment

from keras_moe.ops import log_sinkhorn
from keras_moe.ops._annealed_sinkhorn import log_annealed_sinkhorn
from tests.compiled import compiled
from tests.gradients import gradient


def reference(logits, temperature, num_iterations):
    """The potentials of rows and columns, by NumPy in float64.

    `a` and `b` are in units of the logits, so that only the temperature
    changes from step to step: another way to write the same iteration.
    """
    logits = logits.astype("float64")
    first = max(0.3 * (logits.max() - logits.min()), temperature)
    rows, columns = np.zeros((len(logits), 1)), np.zeros((1, len(logits)))
    for step in range(1, num_iterations + 1):
        t = first * (temperature / first) ** (step / num_iterations)
        for axis, potential in ((1, rows), (0, columns)):
            scaled = (logits + rows + columns) / t
            largest = scaled.max(axis, keepdims=True)
            sums = np.exp(scaled - largest).sum(axis, keepdims=True)
            potential -= t * (largest + np.log(sums))
    return (logits + rows + columns) / temperature


def distance(log_soft):
    """From the nearest permutation, in the Frobenius norm."""
    soft = np.exp(log_soft)
    order = linear_sum_assignment(soft, maximize=True)[1]
    return np.linalg.norm(soft - np.eye(len(soft))[order])


def test_two_steps_by_hand():
    """Temperatures 0.3 · 10 = 3 before the first, then 3/√3 and 1."""
    logits = np.array([[10.0, 0.0], [0.0, 0.0]], "float32")
    # Rows, then columns, of U / √3: the off-diagonal entries stay equal.
    first = np.exp(logits / np.sqrt(3))
    first /= first.sum(axis=1, keepdims=True)
    first /= first.sum(axis=0, keepdims=True)
    second = first ** np.sqrt(3)
    second /= second.sum(axis=1, keepdims=True)
    second /= second.sum(axis=0, keepdims=True)
    np.testing.assert_allclose(
        np.exp(to_numpy(log_annealed_sinkhorn(logits, 1.0, 2))),
        second,
        rtol=1e-4,
    )


@pytest.mark.parametrize("temperature", [1e-2, 1e-3])
def test_is_that_of_the_potentials(temperature, rng):
    logits = rng.uniform(-0.05, 0.05, size=(5, 5)).astype("float32")
    np.testing.assert_allclose(
        np.exp(to_numpy(log_annealed_sinkhorn(logits, temperature, 50))),
        np.exp(reference(logits, temperature, 50)),
        atol=1e-4,
    )


def test_without_a_fall_it_is_the_sinkhorn_operator(rng):
    """At a temperature above 0.3 of the range."""
    logits = rng.normal(size=(4, 4)).astype("float32")
    np.testing.assert_allclose(
        to_numpy(log_annealed_sinkhorn(logits, 10.0, 7)),
        to_numpy(log_sinkhorn(logits, 10.0, 7)),
        rtol=1e-5,
    )


def test_equal_logits_stay_equal():
    log_soft = to_numpy(log_annealed_sinkhorn(np.ones((3, 3)), 1e-7, 5))
    np.testing.assert_allclose(np.exp(log_soft), 1 / 3, rtol=1e-5)


@pytest.mark.traced_once("jax")
def test_random_logits_end_at_their_assignment(rng):
    """With the published iterations 199 of 200 such matrices do not."""
    anneal = compiled(lambda logits: log_annealed_sinkhorn(logits, 1e-7, 160))
    published = compiled(lambda logits: log_sinkhorn(logits, 1e-7, 150))
    for _ in range(20):
        logits = rng.uniform(-0.05, 0.05, size=(16, 16)).astype("float32")
        log_soft = to_numpy(anneal(logits))
        assert distance(log_soft) < 1e-3
        np.testing.assert_array_equal(
            linear_sum_assignment(np.exp(log_soft), maximize=True)[1],
            linear_sum_assignment(logits, maximize=True)[1],
        )
        assert distance(to_numpy(published(logits))) > 0.01


def test_both_sums_are_nearly_1_at_any_temperature(rng):
    logits = rng.uniform(-0.05, 0.05, size=(16, 16)).astype("float32")
    anneal = compiled(lambda tau: log_annealed_sinkhorn(logits, tau, 160))
    for temperature in (1e-3, 1e-5, 1e-7):
        soft = np.exp(to_numpy(anneal(np.array(temperature, "float32"))))
        np.testing.assert_allclose(soft.sum(axis=0), 1.0, rtol=1e-5)
        np.testing.assert_allclose(soft.sum(axis=1), 1.0, atol=0.05)


def test_gradient_is_that_of_differences(rng):
    """The first temperature moves with the range, which has no gradient."""
    logits, cotangent = rng.normal(size=(2, 4, 4))
    logits[0, 0], logits[1, 1] = 3.0, -3.0  # Fixed below: the range.

    def projection(values):
        soft = np.exp(reference(values, 0.5, 12))
        return np.sum(soft * cotangent)

    (grad,) = gradient(
        lambda x: ops.sum(
            ops.exp(log_annealed_sinkhorn(x, 0.5, 12))
            * ops.convert_to_tensor(cotangent.astype("float32"))
        ),
        logits.astype("float32"),
    )
    for i, j in [(0, 1), (2, 3), (3, 0)]:
        step = np.zeros((4, 4))
        step[i, j] = 1e-5
        expected = projection(logits + step) - projection(logits - step)
        np.testing.assert_allclose(grad[i, j], expected / 2e-5, atol=1e-4)


@pytest.mark.parametrize("num_iterations", [0, 3])
def test_the_number_of_iterations_may_be_a_tensor(num_iterations, rng):
    logits = rng.uniform(-1, 1, size=(4, 4)).astype("float32")

    def soft(count):
        return log_annealed_sinkhorn(logits, 0.1, count, max_iterations=10)

    expected = log_annealed_sinkhorn(logits, 0.1, num_iterations)
    np.testing.assert_allclose(
        to_numpy(compiled(soft)(np.array(num_iterations))),
        to_numpy(expected),
        rtol=1e-4,
        atol=1e-5,
    )
