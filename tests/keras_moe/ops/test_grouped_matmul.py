import sys
from typing import Any

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe import ops
from tests.gradients import gradient

INPUTS, UNITS = 4, 6


def pretend_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets JAX compute as where it has a kernel for all groups."""
    monkeypatch.setattr(
        "keras_moe.ops._ragged_dot.has_ragged_kernel", lambda: True
    )


@pytest.fixture(params=["static", "dynamic", "ragged"])
def shapes(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether shapes may depend on values, where the backend can do both.

    "ragged" is the kernel that JAX has for accelerators.
    """
    if request.param == "dynamic" and keras.backend.backend() == "jax":
        pytest.skip("JAX has static shapes")
    if request.param == "ragged":
        if keras.backend.backend() != "jax":
            pytest.skip("an operation of JAX")
        pretend_accelerator(monkeypatch)
    # Of the module, that is; the package has the function under this name.
    monkeypatch.setattr(
        sys.modules["keras_moe.ops.grouped_matmul"],
        "has_dynamic_shapes",
        lambda: request.param == "dynamic",
    )
    return str(request.param)


@pytest.mark.parametrize(
    ("sizes", "behind"),
    [
        ([1, 2, 0, 1, 0], 0),
        ([0, 0, 3, 0, 0], 2),
        ([20, 0, 1, 30, 9], 3),
        ([0, 0, 0, 0, 0], 4),
        ([1, 0, 0, 0, 0], 0),
        ([0, 0, 0, 0, 0], 0),
    ],
)
@pytest.mark.usefixtures("shapes")
def test_it_is_a_plain_loop_gradients_included(
    sizes: list[int], behind: int, rng: np.random.Generator
) -> None:
    num_rows = sum(sizes) + behind
    inputs = rng.normal(size=(num_rows, INPUTS)).astype("float32")
    kernels = rng.normal(size=(5, INPUTS, UNITS)).astype("float32")
    biases = rng.normal(size=(5, UNITS)).astype("float32")
    upstream_grad = rng.normal(size=(num_rows, UNITS)).astype("float32")
    group_sizes = np.array(sizes, "int32")
    expert = np.repeat(np.arange(6), [*sizes, behind])

    def looped(inputs: Any, kernels: Any, biases: Any) -> list[Any]:
        return [
            row @ kernels[e] + biases[e] if e < 5 else np.zeros(UNITS)
            for row, e in zip(inputs, expert, strict=True)
        ]

    product = to_numpy(ops.grouped_matmul(inputs, kernels, group_sizes, biases))
    assert product.shape == (num_rows, UNITS)
    expected = np.reshape(looped(inputs, kernels, biases), (num_rows, UNITS))
    np.testing.assert_allclose(product, expected, rtol=1e-4, atol=1e-5)

    def weighted(inputs: Any, kernels: Any, biases: Any) -> Any:
        product = ops.grouped_matmul(inputs, kernels, group_sizes, biases)
        return keras.ops.sum(keras.ops.multiply(product, upstream_grad))

    of_inputs = np.zeros_like(inputs)
    of_kernels = np.zeros_like(kernels)
    of_biases = np.zeros_like(biases)
    for row, e in enumerate(expert):
        if e < 5:
            of_inputs[row] = kernels[e] @ upstream_grad[row]
            of_kernels[e] += np.outer(inputs[row], upstream_grad[row])
            of_biases[e] += upstream_grad[row]
    for one, other in zip(
        gradient(weighted, inputs, kernels, biases),
        (of_inputs, of_kernels, of_biases),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("shapes")
def test_without_biases_there_are_none(rng: np.random.Generator) -> None:
    inputs = rng.normal(size=(3, INPUTS)).astype("float32")
    kernels = rng.normal(size=(2, INPUTS, UNITS)).astype("float32")
    product = ops.grouped_matmul(inputs, kernels, np.array([1, 2], "int32"))
    expected = [
        row @ kernels[e] for row, e in zip(inputs, (0, 1, 1), strict=True)
    ]
    np.testing.assert_allclose(to_numpy(product), expected, rtol=1e-4)


@pytest.mark.parametrize("name", ["relu", "sigmoid", "softmax"])
@pytest.mark.usefixtures("shapes")
def test_the_activation_is_that_of_the_sums(
    name: str, rng: np.random.Generator
) -> None:
    inputs = rng.normal(size=(6, INPUTS)).astype("float32")
    kernels = rng.normal(size=(3, INPUTS, UNITS)).astype("float32")
    biases = rng.normal(size=(3, UNITS)).astype("float32")
    sizes = np.array([3, 0, 2], "int32")  # One row is behind.
    activation = keras.activations.get(name)

    def inside(*arrays: Any) -> Any:
        inputs, kernels, biases = arrays
        product = ops.grouped_matmul(inputs, kernels, sizes, biases, activation)
        return keras.ops.sum(keras.ops.square(product - 0.5))

    def behind(*arrays: Any) -> Any:
        inputs, kernels, biases = arrays
        product = ops.grouped_matmul(inputs, kernels, sizes, biases)
        return keras.ops.sum(keras.ops.square(activation(product) - 0.5))

    arrays = (inputs, kernels, biases)
    assert float(inside(*arrays)) == pytest.approx(float(behind(*arrays)), 1e-5)
    for one, other in zip(
        gradient(inside, *arrays), gradient(behind, *arrays), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
