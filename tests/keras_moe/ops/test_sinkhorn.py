import contextlib

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy
from scipy.optimize import linear_sum_assignment

from keras_moe.ops import entropy
from keras_moe.ops import log_sinkhorn
from keras_moe.ops import sinkhorn
from tests.compiled import compiled
from tests.gradients import gradient


def reference(logits, temperature, num_iterations):
    """Rows, then columns, by NumPy in float64."""
    matrix = logits.astype("float64") / temperature
    for _ in range(num_iterations):
        for axis in (1, 0):
            largest = matrix.max(axis, keepdims=True)
            sums = np.exp(matrix - largest).sum(axis, keepdims=True)
            matrix = matrix - largest - np.log(sums)
    return np.exp(matrix)


def float64():
    """Lets a backend compute in float64."""
    if keras.backend.backend() != "jax":
        return contextlib.nullcontext()
    import jax

    return jax.enable_x64(True)


def test_zero_iterations_only_exponentiate():
    soft = sinkhorn(np.array([[0.0, 1.0]], "float32"), 0.5, 0)
    np.testing.assert_allclose(to_numpy(soft), [[1.0, np.exp(2.0)]], rtol=1e-6)


def test_one_iteration_by_hand():
    logits = np.log(np.array([[1.0, 1.0], [3.0, 1.0]], "float32"))
    # Rows: [[1/2, 1/2], [3/4, 1/4]]; then columns: sums 5/4 and 3/4.
    np.testing.assert_allclose(
        to_numpy(sinkhorn(logits, 1.0, 1)),
        [[2 / 5, 2 / 3], [3 / 5, 1 / 3]],
        rtol=1e-6,
    )


@pytest.mark.parametrize("name", ["n16_warm", "n16_start", "n9_mid"])
def test_oracle(name, oracle):
    case = oracle(f"sinkhorn_{name}")
    arguments = float(case["temperature"]), int(case["num_iterations"])
    soft = sinkhorn(case["logits"], *arguments)
    np.testing.assert_allclose(
        to_numpy(soft), case["doubly_stochastic"], atol=1e-5
    )
    by_rows = soft / keras.ops.sum(soft, axis=1, keepdims=True)
    np.testing.assert_allclose(
        float(entropy(soft, None) + entropy(by_rows, None)),
        case["entropy"],
        rtol=1e-4,
    )


@pytest.mark.parametrize("name", ["n16_warm", "n16_start", "n9_mid"])
def test_oracle_gradient(name, oracle):
    case = oracle(f"sinkhorn_{name}")
    arguments = float(case["temperature"]), int(case["num_iterations"])

    def projection(logits):
        soft = sinkhorn(logits, *arguments)
        return keras.ops.sum(keras.ops.multiply(soft, case["cotangent"]))

    (grad,) = gradient(projection, case["logits"])
    expected = case["grad_logits"]
    np.testing.assert_allclose(
        grad, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max()
    )


def test_oracle_at_a_low_temperature_in_float64(oracle):
    case = oracle("sinkhorn_n16_late")
    temperature = float(case["temperature"])
    num_iterations = int(case["num_iterations"])
    with float64():
        logits = case["logits"].astype("float64")
        soft = to_numpy(sinkhorn(logits, temperature, num_iterations))
    assert soft.dtype == "float64"
    np.testing.assert_allclose(
        soft, reference(case["logits"], temperature, num_iterations), atol=1e-12
    )
    np.testing.assert_allclose(soft, case["doubly_stochastic"], atol=1e-5)
    np.testing.assert_allclose(soft.sum(axis=0), 1.0, rtol=1e-12)
    assert (linear_sum_assignment(-soft)[1] == case["assignment"]).all()


def test_low_temperature_keeps_the_columns_and_the_assignment(oracle):
    case = oracle("sinkhorn_n16_late")
    soft = to_numpy(
        sinkhorn(
            case["logits"],
            float(case["temperature"]),
            int(case["num_iterations"]),
        )
    )
    np.testing.assert_allclose(soft.sum(axis=0), 1.0, rtol=1e-5)
    assert (linear_sum_assignment(-soft)[1] == case["assignment"]).all()


def test_the_temperature_may_be_a_tensor(rng):
    logits = rng.uniform(-0.05, 0.05, size=(4, 4)).astype("float32")
    temperature = keras.ops.convert_to_tensor(0.01)
    np.testing.assert_allclose(
        to_numpy(sinkhorn(logits, temperature, 10)),
        reference(logits, 0.01, 10),
        atol=1e-5,
    )


@pytest.mark.parametrize(
    ("num_iterations", "error", "message"),
    [
        (-1, ValueError, r"`num_iterations` must be at least 0. Received: "),
        (2.5, TypeError, r"`num_iterations` must be an integer. Received: "),
    ],
)
def test_refuses_other_numbers_of_iterations(num_iterations, error, message):
    with pytest.raises(error, match=message):
        sinkhorn(np.zeros((2, 2)), 1.0, num_iterations)


@pytest.mark.parametrize("num_iterations", [0, 3, 10])
def test_the_number_of_iterations_may_be_a_tensor(num_iterations, rng):
    logits = rng.uniform(-0.05, 0.05, size=(4, 4)).astype("float32")

    def soft(count):
        return sinkhorn(logits, 0.1, count, max_iterations=10)

    np.testing.assert_allclose(
        compiled(soft)(np.array(num_iterations)),
        reference(logits, 0.1, num_iterations),
        rtol=1e-5,
    )


def test_gradient_with_the_number_of_iterations_in_a_tensor(rng):
    logits, cotangent = rng.normal(size=(2, 4, 4)).astype("float32")

    def projection(logits, count, bound):
        soft = sinkhorn(logits, 0.5, count, bound)
        return keras.ops.sum(keras.ops.multiply(soft, cotangent))

    count = keras.ops.convert_to_tensor(3)
    (grad,) = gradient(lambda x: projection(x, count, 10), logits)
    (expected,) = gradient(lambda x: projection(x, 3, None), logits)
    np.testing.assert_allclose(grad, expected, rtol=1e-4, atol=1e-6)


def test_no_more_iterations_than_the_bound(rng):
    logits = rng.normal(size=(4, 4)).astype("float32")
    count = keras.ops.convert_to_tensor(9)
    np.testing.assert_allclose(
        to_numpy(sinkhorn(logits, 1.0, count, max_iterations=2)),
        reference(logits, 1.0, 2),
        rtol=1e-5,
    )


def test_logarithms_stay_finite_where_the_matrix_underflows():
    logits = np.array([[0.05, 0.0], [0.0, 0.05]], "float32")
    log_soft = to_numpy(log_sinkhorn(logits, 1e-7, 150))
    assert np.isfinite(log_soft).all()
    assert np.exp(log_soft).tolist() == [[1.0, 0.0], [0.0, 1.0]]
