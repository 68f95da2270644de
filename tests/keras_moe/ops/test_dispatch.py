import sys
from typing import Any

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe import ops
from keras_moe.ops.keep_largest import keep_largest
from tests.gradients import gradient


def test_rows_go_to_their_slots_and_empty_slots_hold_zeros() -> None:
    inputs = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")
    plan = ops.RoutingPlan(np.array([[1, 2], [0, 1]]), np.array([0, 1]))
    blocks = to_numpy(ops.dispatch(inputs, plan))
    assert blocks.tolist() == [
        [[3.0, 4.0], [0.0, 0.0]],
        [[1.0, 2.0], [3.0, 4.0]],
    ]


def test_outputs_are_weighted_and_added_for_each_task() -> None:
    plan = ops.RoutingPlan(
        np.array([[1, 2], [0, 1]], "int32"), np.array([0, 1], "int32")
    )
    outputs = np.array([[[10.0], [99.0]], [[20.0], [30.0]]], "float32")
    # weights[row, task, expert]
    weights = np.array(
        [[[0.0, 1.0], [0.0, 0.5]], [[0.25, 0.75], [1.0, 0.0]]], "float32"
    )
    first, second = ops.combine(outputs, weights, plan)
    assert to_numpy(first).tolist() == [[20.0], [0.25 * 10 + 0.75 * 30]]
    assert to_numpy(second).tolist() == [[10.0], [10.0]]


@pytest.fixture(params=["static", "dynamic"])
def shapes(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether shapes may depend on values, where the backend can do both."""
    if request.param == "dynamic" and keras.backend.backend() == "jax":
        pytest.skip("JAX has static shapes")
    # Of the module, that is; the package has the function under this name.
    monkeypatch.setattr(
        sys.modules["keras_moe.ops.grouped_matmul"],
        "has_dynamic_shapes",
        lambda: request.param == "dynamic",
    )
    return str(request.param)


@pytest.mark.parametrize(
    "experts", [[0, 1, 1], [0, 0, 0], [3, 3, 4], [1, 2, 5], [5, 5, 5]]
)
@pytest.mark.usefixtures("shapes")
def test_grouped_matmul_is_a_plain_loop_gradients_included(
    experts: list[int], rng: np.random.Generator
) -> None:
    blocks = rng.normal(size=(3, 2, 4)).astype("float32")
    kernels = rng.normal(size=(5, 4, 6)).astype("float32")
    product = ops.grouped_matmul(blocks, kernels, np.array(experts, "int32"))
    nobody = np.zeros((1, 4, 6), "float32")
    matrices = np.concatenate([kernels, nobody])
    expected = [b @ matrices[e] for b, e in zip(blocks, experts, strict=True)]
    np.testing.assert_allclose(to_numpy(product), expected, rtol=1e-4)

    def grouped(blocks: Any, kernels: Any) -> Any:
        product = ops.grouped_matmul(
            blocks, kernels, np.array(experts, "int32")
        )
        return keras.ops.sum(keras.ops.square(product))

    def looped(blocks: Any, kernels: Any) -> Any:
        return sum(
            keras.ops.sum(keras.ops.square(blocks[i] @ kernels[expert]))
            for i, expert in enumerate(experts)
            if expert < 5
        ) + 0.0 * (keras.ops.sum(blocks) + keras.ops.sum(kernels))

    for one, other in zip(
        gradient(grouped, blocks, kernels),
        gradient(looped, blocks, kernels),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_the_largest_weights_are_kept_with_the_same_sum() -> None:
    weights = np.array([[0.1, 0.4, 0.2], [0.0, 0.0, 0.0]], "float32")
    kept = to_numpy(keep_largest(weights, 2))
    np.testing.assert_allclose(
        kept, [[0.0, 0.7 * 0.4 / 0.6, 0.7 * 0.2 / 0.6], [0, 0, 0]], rtol=1e-6
    )
