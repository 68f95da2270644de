from typing import Any

import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import CGC
from keras_moe.layers import COMETGate
from keras_moe.layers import ExpertChoiceGate
from keras_moe.ops import keep_largest
from tests.compiled import compiled
from tests.gradients import gradient_function
from tests.gradients import weight_gradient
from tests.keras_moe.layers.cgc.small_cgc import INPUTS
from tests.keras_moe.layers.cgc.small_cgc import ROWS
from tests.keras_moe.layers.cgc.small_cgc import UNITS
from tests.keras_moe.layers.cgc.small_cgc import assert_all_close
from tests.keras_moe.layers.cgc.small_cgc import experts
from tests.keras_moe.layers.given_gate import GivenGate
from tests.keras_moe.layers.given_gate import balanced
from tests.keras_moe.layers.given_gate import dense
from tests.keras_moe.layers.given_gate import ragged
from tests.keras_moe.layers.given_gate import skewed

pytestmark = pytest.mark.usefixtures("sparse_pays")

# What each output's gate weighs: 8 shared experts, 4 of a and 6 of b.
NUM_EXPERTS = {"a": 12, "b": 14, "shared": 18}
BOUNDS = {"a": 2, "b": 1, "shared": 1}


def given_cgc(execution: str, bounded: bool = False) -> CGC:
    """Its gate inputs are the weights; auto is dense for a, else sparse."""
    gates = {
        name: GivenGate(NUM_EXPERTS[name], k=k, bounded=bounded)
        for name, k in BOUNDS.items()
    }
    layer = CGC(
        shared_gate=gates.pop("shared"),
        gates=gates,
        shared_experts=experts(8, seed=0),
        task_experts={"a": experts(4, seed=1), "b": experts(6, seed=2)},
        execution=execution,
    )
    layer.build((None, INPUTS), {n: (None, e) for n, e in NUM_EXPERTS.items()})
    return layer


def given_weights(pattern: Any) -> dict[str, np.ndarray]:
    return {
        name: pattern(ROWS, NUM_EXPERTS[name], k) for name, k in BOUNDS.items()
    }


def outputs_of(
    layer: CGC, x: np.ndarray, weights: dict[str, np.ndarray]
) -> list[np.ndarray]:
    """Outputs in the order of the weights."""

    def call(x: object, *arrays: object) -> list[object]:
        gate_inputs = dict(zip(weights, arrays, strict=True))
        outputs = layer(x, gate_inputs=gate_inputs)
        return [outputs[name] for name in weights]

    return compiled(call)(x, *weights.values())


def gradients_of(
    layer: CGC, x: np.ndarray, weights: dict[str, np.ndarray]
) -> list[np.ndarray]:
    """Gradients for experts, inputs and weights, where there are any."""

    def loss(x: object, *arrays: object) -> object:
        gate_inputs = dict(zip(weights, arrays, strict=True))
        outputs = layer(x, gate_inputs=gate_inputs)
        return sum(
            factor * ops.sum(ops.square(outputs[name]))
            for factor, name in enumerate(weights, start=1)
        )

    variables = layer.trainable_variables
    values = [variable.value for variable in variables]
    arrays = list(weights.values())
    grads = gradient_function(loss, variables)(*values, x, *arrays)
    others, of_weights = grads[: -len(arrays)], grads[-len(arrays) :]
    # Sparse execution does not compute what weighs nothing.
    return [
        *others,
        *(g * (w != 0) for g, w in zip(of_weights, arrays, strict=True)),
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("pattern", "bounded"),
    [(balanced, False), (ragged, False), (skewed, True)],
)
def test_all_executions_agree(
    pattern: Any, bounded: bool, x: np.ndarray
) -> None:
    weights = given_weights(pattern)
    expected = gradients_of(given_cgc("dense"), x, weights)
    for execution in ("sparse", "auto"):
        actual = gradients_of(given_cgc(execution, bounded), x, weights)
        assert_all_close(actual, expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("chosen", [slice(0, 2), slice(8, 10)])
def test_nothing_is_dropped_where_all_rows_choose_the_same_group(
    chosen: slice, x: np.ndarray
) -> None:
    weights = given_weights(balanced)
    for name, k in BOUNDS.items():
        weights[name][:] = 0
        weights[name][:, chosen][:, :k] = 1 / k
    expected = outputs_of(given_cgc("dense"), x, weights)
    for execution in ("sparse", "auto"):
        actual = outputs_of(given_cgc(execution, bounded=True), x, weights)
        assert_all_close(actual, expected)


def test_auto_is_exact_where_every_row_exceeds_k(x: np.ndarray) -> None:
    weights = given_weights(dense)
    assert_all_close(
        gradients_of(given_cgc("auto"), x, weights),
        gradients_of(given_cgc("dense"), x, weights),
    )


def test_sparse_limits_a_gate_on_the_whole_not_in_each_group(
    x: np.ndarray,
) -> None:
    weights = given_weights(dense)
    kept = {
        name: to_numpy(keep_largest(array, BOUNDS[name]))
        for name, array in weights.items()
    }
    expected = outputs_of(given_cgc("dense"), x, kept)
    actual = outputs_of(given_cgc("sparse"), x, weights)
    assert_all_close(actual, expected)


@pytest.mark.parametrize("rows", [0, 1])
def test_executions_agree_on_batches_of_no_row_and_one(
    rows: int, x: np.ndarray
) -> None:
    weights = {n: w[:rows] for n, w in given_weights(balanced).items()}
    expected = outputs_of(given_cgc("dense"), x[:rows], weights)
    actual = outputs_of(given_cgc("auto", bounded=True), x[:rows], weights)
    assert actual[0].shape == (rows, UNITS)
    assert_all_close(actual, expected)


def gated_cgc(execution: str, make_gate: Any) -> CGC:
    layer = CGC(
        {"a": make_gate(12, seed=0), "b": make_gate(12, seed=1)},
        shared_experts=experts(8, seed=2),
        task_experts={"a": experts(4, seed=3), "b": experts(4, seed=4)},
        execution=execution,
    )
    layer.build((None, INPUTS))
    return layer


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("hard_rows", "execution"), [(4, "auto"), (ROWS, "auto"), (ROWS, "sparse")]
)
def test_executions_agree_on_soft_and_hard_rows(
    hard_rows: int, execution: str, x: np.ndarray
) -> None:
    x[:hard_rows] *= 1e4  # Far outside of where a decision is soft.

    def gradients(execution: str) -> list[np.ndarray]:
        layer = gated_cgc(execution, lambda n, seed: COMETGate(n, 2, seed=seed))
        return weight_gradient(
            lambda: sum(ops.sum(ops.square(y)) for y in layer(x).values()),
            layer.trainable_variables,
        )

    expected, actual = gradients("dense"), gradients(execution)
    scales = [max(np.abs(grad).max(), 1.0) for grad in expected]
    assert_all_close(
        [grad / scale for grad, scale in zip(actual, scales, strict=True)],
        [grad / scale for grad, scale in zip(expected, scales, strict=True)],
    )


def test_executions_agree_where_experts_choose(x: np.ndarray) -> None:
    def outputs(execution: str) -> list[np.ndarray]:
        layer = gated_cgc(
            execution, lambda n, seed: ExpertChoiceGate(n, seed=seed)
        )
        call = compiled(lambda x: list(layer(x, training=True).values()))
        return call(x)

    expected = outputs("dense")
    for execution in ("auto", "sparse"):
        assert_all_close(outputs(execution), expected)
