"""A row that is not a number stays visible, and spoils no other row."""

from typing import Any

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import ConditionalMask
from keras_moe.layers import ExpertChoiceGate
from keras_moe.layers import LayerExperts
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import TopKGate
from tests.compiled import compiled
from tests.gradients import weight_gradient
from tests.keras_moe.layers.cgc.small_cgc import INPUTS
from tests.keras_moe.layers.cgc.small_cgc import small_cgc
from tests.keras_moe.layers.gates import registry
from tests.keras_moe.layers.gates.registry import build_gate
from tests.keras_moe.layers.given_gate import GivenGate
from tests.keras_moe.layers.given_gate import balanced

pytestmark = pytest.mark.usefixtures("sparse_pays")

N = registry.NUM_EXPERTS
ROWS = 12
LOST = [3, 7]
# Rows whose features, or only one of them, are not numbers.
BAD_ROWS = np.isin(np.arange(ROWS), LOST)
EXECUTIONS = ("dense", "sparse", "auto")


def features_with_nan(rng: np.random.Generator, width: int) -> np.ndarray:
    inputs = rng.normal(size=(ROWS, width)).astype("float32")
    inputs[LOST[0]] = np.nan
    inputs[LOST[1], 0] = np.nan
    return inputs


def assert_nan_in_these_rows_alone(outputs: Any) -> None:
    is_nan = np.isnan(to_numpy(outputs)).reshape(ROWS, -1)
    np.testing.assert_array_equal(is_nan.any(axis=1), BAD_ROWS)


# The linear program of a capped choice takes long, step by step.
CASES = [
    (name, training)
    for name in registry.TRAINED
    for training in (False, True)
    if not (training and name == "expert-choice-capped")
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("name", "training"), CASES)
def test_every_gate_shows_it_in_every_execution(
    name: str, training: bool, rng: np.random.Generator
) -> None:
    gate = build_gate(name)
    experts = MLPExperts(N, 3, kernel_initializer="ones")
    mixtures = {
        execution: MoE(gate, experts, execution=execution)
        for execution in EXECUTIONS
        if execution != "sparse" or gate.experts_per_row is not None
    }
    inputs = features_with_nan(rng, registry.NUM_FEATURES)
    for mixture in mixtures.values():
        mixture.build(inputs.shape)

    def call(inputs: Any) -> Any:
        return {
            execution: mixture(inputs, training=training)
            for execution, mixture in mixtures.items()
        } | {"gate": gate(inputs, training=training)}

    outputs = compiled(call)(inputs)
    if gate.static:
        del outputs["gate"]
    for output in outputs.values():
        assert_nan_in_these_rows_alone(output)


def given_weights() -> np.ndarray:
    """As many experts as the gate's bound allows, but for the lost rows."""
    weights = balanced(ROWS, N, 2)
    weights[LOST[0]] = np.nan
    weights[LOST[1], 1] = np.nan
    return weights


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize("num_tasks", [1, 2])
def test_executions_agree_on_all_other_rows(
    num_tasks: int,
    as_list: bool,
    bounded: bool,
    rng: np.random.Generator,
) -> None:
    x = rng.normal(size=(ROWS, 3)).astype("float32")
    x[0] = np.nan  # Row 0 stands in the slots of a plan that hold no pair.
    x[ROWS - 1, 1] = np.nan
    weights = [given_weights(), balanced(ROWS, N, 2)][:num_tasks]
    experts = MLPExperts(N, 2, kernel_initializer="ones")
    if as_list:
        experts = LayerExperts(
            [keras.layers.Dense(2, kernel_initializer="ones") for _ in range(N)]
        )
    gates = [GivenGate(N, k=2, bounded=bounded) for _ in range(num_tasks)]
    mixtures = [MMoE(gates, experts, execution=mode) for mode in EXECUTIONS]
    for mixture in mixtures:
        mixture.build(x.shape, [(ROWS, N)] * num_tasks)

    def call(x: Any, *weights: Any) -> Any:
        return [mixture(x, gate_inputs=list(weights)) for mixture in mixtures]

    dense, *others = compiled(call)(x, *weights)
    assert np.isnan(dense[0]).any(axis=1).sum() == 4
    for other in others:
        for expected, actual in zip(dense, other, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_each_output_of_cgc_shows_it(
    execution: str, rng: np.random.Generator
) -> None:
    gates = {"a": TopKGate(4, k=1), "b": TopKGate(3, k=1)}
    layer = small_cgc(gates=gates, execution=execution)
    inputs = features_with_nan(rng, INPUTS)
    layer.build(inputs.shape)
    for output in compiled(layer)(inputs).values():
        assert_nan_in_these_rows_alone(output)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("max_experts_per_token", [None, 2])
@pytest.mark.parametrize("training", [False, True])
def test_experts_choose_as_if_it_were_not_there(
    training: bool,
    max_experts_per_token: int | None,
    rng: np.random.Generator,
) -> None:
    gate = ExpertChoiceGate(
        4,
        capacity_factor=1.5,
        max_experts_per_token=max_experts_per_token,
        inference="batch",
    )
    inputs = features_with_nan(rng, 5)
    weights = to_numpy(gate(inputs, training=training))
    cutoffs = to_numpy(gate.cutoffs)
    assert np.isfinite(cutoffs).all()
    without = to_numpy(gate(inputs[~BAD_ROWS], training=training))
    # To rounding: kernels may add up a row by its place in the batch.
    np.testing.assert_allclose(weights[~BAD_ROWS], without, rtol=1e-5)
    np.testing.assert_array_equal(weights[~BAD_ROWS] > 0, without > 0)
    assert np.isnan(weights[BAD_ROWS]).all()


def test_a_batch_of_nothing_else() -> None:
    inputs = np.full((4, registry.NUM_FEATURES), np.nan, "float32")
    experts = MLPExperts(N, 3, kernel_initializer="ones")
    for name in ("top-k", "expert-choice", "expert-choice-capped"):
        mixture = MoE(build_gate(name), experts, execution="sparse")
        mixture.build(inputs.shape)

        def call(inputs: Any, mixture: Any = mixture) -> Any:
            return mixture(inputs, training=True)

        assert np.isnan(compiled(call)(inputs)).all()


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_padding_may_hold_it(execution: str, rng: np.random.Generator) -> None:
    x = features_with_nan(rng, 4)
    x[0] = np.nan
    is_row = ~BAD_ROWS & (np.arange(ROWS) > 0)
    experts = MLPExperts(N, 3, activation="linear")
    mixture = MoE(TopKGate(N, k=2), experts, execution=execution)
    mixture.build(x.shape)

    def call(x: Any) -> Any:
        return mixture(x, mask=is_row, training=True)

    outputs = compiled(call)(x)
    assert not outputs[~is_row].any()
    assert outputs[is_row].any(axis=1).all()
    # Nor does it reach the gradients.
    slopes = weight_gradient(
        lambda: keras.ops.sum(call(x)), mixture.trainable_weights
    )
    assert all(np.isfinite(slope).all() for slope in slopes)


def test_a_conditional_mask_shows_it(rng: np.random.Generator) -> None:
    inputs = rng.normal(size=(ROWS, 8)).astype("float32")
    masked, routing = ConditionalMask(0.5)(inputs, features_with_nan(rng, 3))
    assert_nan_in_these_rows_alone(masked)
    assert_nan_in_these_rows_alone(routing)
