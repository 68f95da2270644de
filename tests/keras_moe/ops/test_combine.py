from typing import Any

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe import ops
from keras_moe.ops import keep_largest
from tests.compiled import compiled
from tests.gradients import gradient


def test_outputs_are_weighted_and_added_for_each_task() -> None:
    # Row 1 goes to expert 0, rows 0 and 1 to expert 1; one slot is empty.
    plan = ops.RoutingPlan(
        np.array([1, 0, 1, 0], "int32"),
        np.array([0, 1, 1, 2], "int32"),
        np.array([1, 2], "int32"),
    )
    outputs = np.array([[10.0], [20.0], [30.0], [99.0]], "float32")
    # weights[row, task, expert]
    weights = np.array(
        [[[0.0, 1.0], [0.0, 0.5]], [[0.25, 0.75], [1.0, 0.0]]], "float32"
    )
    first, second = ops.combine(outputs, weights, plan)
    assert to_numpy(first).tolist() == [[20.0], [0.25 * 10 + 0.75 * 30]]
    assert to_numpy(second).tolist() == [[10.0], [10.0]]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("spare", [None, 0, 5])
@pytest.mark.parametrize("num_tasks", [1, 2, 3])
def test_the_sums_are_those_of_all_experts(
    num_tasks: int, spare: int | None, rng: np.random.Generator
) -> None:
    all_outputs = rng.normal(size=(9, 5, 2)).astype("float32")
    weights = rng.normal(size=(9, num_tasks, 5)).astype("float32")
    weights[rng.random(weights.shape) < 0.6] = 0
    weights[3] = 0  # A row that no task sends anywhere.
    selected = (weights != 0).any(axis=1)
    num_slots = max_pairs = None
    if spare is not None:
        num_slots = int(selected.sum()) + spare
        max_pairs = int((weights != 0).sum()) + spare
    plan = ops.routing_plan(selected, num_slots)
    experts = np.minimum(to_numpy(plan.experts), 4)
    outputs = all_outputs[to_numpy(plan.rows), experts]
    outputs[int(selected.sum()) :] = 1e6  # In slots without a pair.
    combined = compiled(
        lambda outputs, weights: ops.combine(outputs, weights, plan, max_pairs)
    )(outputs, weights)
    expected = np.einsum("nte,neh->tnh", weights, all_outputs)
    np.testing.assert_allclose(np.stack(combined), expected, atol=1e-5)


@pytest.mark.parametrize("num_tasks", [1, 3])
def test_gradients_are_those_of_all_experts(
    num_tasks: int, rng: np.random.Generator
) -> None:
    all_outputs = rng.normal(size=(9, 5, 2)).astype("float32")
    weights = rng.normal(size=(9, num_tasks, 5)).astype("float32")
    weights[rng.random(weights.shape) < 0.6] = 0
    upstream_grad = rng.normal(size=(num_tasks, 9, 2)).astype("float32")
    selected = (weights != 0).any(axis=1)
    static = keras.backend.backend() == "jax"
    num_slots, max_pairs = int(selected.sum()), int((weights != 0).sum())
    plan = ops.routing_plan(selected, num_slots if static else None)
    rows, experts = to_numpy(plan.rows), to_numpy(plan.experts)

    def weighted(outputs: Any, weights: Any) -> Any:
        combined = ops.combine(
            outputs, weights, plan, max_pairs if static else None
        )
        return keras.ops.sum(
            keras.ops.multiply(keras.ops.stack(combined), upstream_grad)
        )

    of_outputs, of_weights = gradient(
        weighted, all_outputs[rows, experts], weights
    )
    expected = np.einsum("tnh,nte->neh", upstream_grad, weights)
    np.testing.assert_allclose(of_outputs, expected[rows, experts], atol=1e-5)
    # A weight that is zero has no pair, and no gradient.
    expected = np.einsum("tnh,neh->nte", upstream_grad, all_outputs)
    np.testing.assert_allclose(
        of_weights, np.where(weights != 0, expected, 0), atol=1e-5
    )


def test_the_largest_weights_are_kept_with_the_same_sum() -> None:
    weights = np.array([[0.1, 0.4, 0.2], [0.0, 0.0, 0.0]], "float32")
    kept = to_numpy(keep_largest(weights, 2))
    np.testing.assert_allclose(
        kept, [[0.0, 0.7 * 0.4 / 0.6, 0.7 * 0.2 / 0.6], [0, 0, 0]], rtol=1e-6
    )
