import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.ops import gathered_matmul
from tests.compiled import compiled
from tests.gradients import gradient


def test_by_hand():
    kernel = np.array([[1, 2], [3, 4], [5, 6]], "float32")
    inputs = np.array([[1, 10], [2, -1]], "float32")
    indices = np.array([[2, 0], [1, 1]], "int32")
    # 1 (5, 6) + 10 (1, 2), and 2 (3, 4) - (3, 4).
    outputs = gathered_matmul(inputs, kernel, indices)
    assert to_numpy(outputs).tolist() == [[15, 26], [3, 4]]


@pytest.mark.parametrize(("rows", "k"), [(1, 1), (5, 3), (0, 2), (7, 6)])
def test_is_the_product_of_what_is_not_zero(rows, k, rng):
    kernel = rng.normal(size=(6, 4)).astype("float32")
    inputs = rng.normal(size=(rows, k)).astype("float32")
    indices = np.array(
        [rng.permutation(6)[:k] for _ in range(rows)], "int32"
    ).reshape(rows, k)
    full = np.zeros((rows, 6), "float32")
    np.put_along_axis(full, indices, inputs, axis=1)
    for multiply in (gathered_matmul, compiled(gathered_matmul)):
        outputs = to_numpy(multiply(inputs, kernel, indices))
        np.testing.assert_allclose(outputs, full @ kernel, atol=1e-5)


def test_gradients(rng):
    kernel = rng.normal(size=(6, 4)).astype("float32")
    inputs = rng.normal(size=(3, 2)).astype("float32")
    indices = np.array([[0, 5], [5, 2], [1, 3]], "int32")
    found = gradient(
        lambda x, a: ops.sum(ops.square(gathered_matmul(x, a, indices))),
        inputs,
        kernel,
    )
    full = np.zeros((3, 6), "float32")
    np.put_along_axis(full, indices, inputs, axis=1)
    outer = 2 * full @ kernel
    wanted = np.take_along_axis(outer @ kernel.T, indices, axis=1)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], full.T @ outer, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype, rng):
    kernel = rng.normal(size=(6, 4)).astype("float32")
    inputs = np.array([[1.0, 2.0]], "float32")
    outputs = gathered_matmul(
        ops.cast(inputs, dtype), ops.cast(kernel, dtype), np.array([[4, 1]])
    )
    expected = kernel[4] + 2 * kernel[1]
    found = to_numpy(ops.cast(outputs, "float32"))[0]
    np.testing.assert_allclose(found, expected, atol=0.05)
