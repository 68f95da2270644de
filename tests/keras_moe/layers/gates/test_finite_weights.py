"""Whatever is finite among the inputs has finite weights; NaN stays visible."""

from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import SoftmaxGate
from keras_moe.layers import XMoEGate
from tests.compiled import compiled
from tests.examples import examples
from tests.keras_moe.layers.gates import registry
from tests.keras_moe.layers.gates.registry import build_gate

# The linear program of a capped choice takes long, step by step.
CASES = [
    (name, training)
    for name in registry.ON_FEATURES
    for training in (False, True)
    if not (training and name == "expert-choice-capped")
]
LARGEST = float(np.finfo("float32").max)
# Ordinary numbers, all that float32 has, and its ends.
NUMBERS = st.one_of(
    st.floats(-10, 10, width=32),
    st.floats(-LARGEST, LARGEST, width=32),
    st.sampled_from([-LARGEST, LARGEST, 1e30, -1e20, 1e19, 0.0]),
)
BATCHES = hnp.arrays("float32", (6, registry.NUM_FEATURES), elements=NUMBERS)
few = examples(10)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "training"), CASES)
def test_finite_inputs_have_finite_weights(name: str, training: bool) -> None:
    gate = build_gate(name)
    weigh = compiled(lambda inputs: gate(inputs, training=training))

    @few
    @given(inputs=BATCHES, lost=st.integers(0, 5))
    def check(inputs: Any, lost: int) -> None:
        weights = weigh(inputs)
        assert np.isfinite(weights).all()
        inputs[lost, 1] = np.nan
        is_nan = np.isnan(weigh(inputs)).any(axis=-1)
        assert is_nan.tolist() == [row == lost for row in range(6)]

    check()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", registry.ON_FEATURES)
def test_many_features_of_both_signs_do_not_cancel(name: str) -> None:
    gate = registry.GATES[name]()
    inputs = np.full((3, 200), 3e38, "float32")
    inputs[:, ::2] *= -1
    gate.build(inputs.shape)
    assert np.isfinite(compiled(gate)(inputs)).all()


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("name", ["top-k", "x-moe", "remoe"])
def test_no_dtype_is_too_narrow(name: str, dtype: str) -> None:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float16")
    try:
        gate = build_gate(name)
    finally:
        keras.config.set_dtype_policy(before)
    # Half precision has infinity for it, and JAX, which has no float64.
    with np.errstate(over="ignore"):
        inputs = np.full((2, registry.NUM_FEATURES), 1e300).astype(dtype)
        weights = compiled(gate)(inputs)
    assert np.isfinite(weights).all()


def test_features_of_all_ordinary_sizes_stay_as_they_are() -> None:
    gate = SoftmaxGate(2, use_bias=False)
    gate.build((None, 1))
    gate.kernel.assign([[1e-23, -1e-23]])
    weights = to_numpy(gate(np.array([[1e23], [1e24], [3e38]], "float32")))
    expected = [1 / (1 + np.exp(-2 * x)) for x in (1.0, 10.0, 12.08925819)]
    np.testing.assert_allclose(weights[:, 0], expected, rtol=1e-6)


def test_directions_of_long_vectors_are_those_of_short_ones() -> None:
    gate = XMoEGate(4, k=4, projection_dim=3, seed=0)
    inputs = np.array([[1.0, -2.0, 0.5]], "float32")
    gate.build(inputs.shape)
    np.testing.assert_allclose(
        to_numpy(gate(inputs * 2.0**78)), to_numpy(gate(inputs)), rtol=1e-6
    )
