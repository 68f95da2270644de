from pathlib import Path

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import QuantizedExperts
from tests.examples import examples
from tests.keras_moe.layers.given_gate import GivenGate
from tests.keras_moe.layers.given_gate import balanced
from tests.keras_moe.layers.given_gate import ragged
from tests.keras_moe.layers.layer_test import check_layer


def built(**kwargs) -> MLPExperts:
    experts = MLPExperts(
        **{
            "num_experts": 4,
            "units": [6, 3],
            "bias_initializer": "normal",
            "seed": 1,
            **kwargs,
        }
    )
    experts.build((None, 5))
    return experts


def dequantized(bank: QuantizedExperts) -> list[np.ndarray]:
    return [
        to_numpy(kernel).astype("float32") * to_numpy(scale)[:, None]
        for kernel, scale in zip(bank.kernels, bank.scales, strict=True)
    ]


def test_kernel_by_hand() -> None:
    experts = MLPExperts(2, 2, use_bias=False)
    experts.build((None, 3))
    experts.kernels[0].assign(
        [
            [[1.27, 0.0], [-0.634, 0.0], [0.007, 0.0]],
            [[-254.0, 0.5], [3.1, -0.25], [0.0, 0.127]],
        ]
    )
    bank = QuantizedExperts.of(experts)
    np.testing.assert_array_equal(
        to_numpy(bank.kernels[0]),
        [[[127, 0], [-63, 0], [1, 0]], [[-127, 127], [2, -64], [0, 32]]],
    )
    np.testing.assert_allclose(
        to_numpy(bank.scales[0]), [[0.01, 1.0], [2.0, 0.5 / 127]], rtol=1e-6
    )


@examples(20)
@given(seed=st.integers(0, 1000), exponent=st.integers(-30, 30))
def test_kernels_are_off_by_half_a_scale_at_most(seed, exponent) -> None:
    experts = built()
    for kernel in experts.kernels:
        rng = np.random.default_rng(seed)
        kernel.assign(10.0**exponent * rng.normal(size=kernel.shape))
    bank = QuantizedExperts.of(experts)
    for kernel, values, scale in zip(
        experts.kernels, dequantized(bank), bank.scales, strict=True
    ):
        error = np.abs(to_numpy(kernel) - values) / to_numpy(scale)[:, None]
        assert error.max() <= 0.5 + 1e-5


@pytest.mark.parametrize("use_bias", [True, False])
def test_it_computes_with_the_dequantized_kernels(use_bias, rng) -> None:
    experts = built(use_bias=use_bias)
    bank = QuantizedExperts.of(experts)
    for kernel, values in zip(experts.kernels, dequantized(bank), strict=True):
        kernel.assign(values)
    x = rng.normal(size=(7, 5)).astype("float32")
    sizes = np.array([3, 0, 2, 2], "int32")
    for kwargs in ({}, {"group_sizes": sizes}):
        np.testing.assert_allclose(
            to_numpy(bank(x, **kwargs)),
            to_numpy(experts(x, **kwargs)),
            rtol=1e-5,
            atol=1e-6,
        )


@pytest.mark.parametrize("weights", [balanced, ragged])
def test_sparse_execution_agrees_with_dense(weights, rng) -> None:
    bank = QuantizedExperts.of(built())
    gate = GivenGate(4, k=2, bounded=True)
    x = rng.normal(size=(8, 5)).astype("float32")
    outputs = [
        to_numpy(MoE(gate, bank, execution)(x, weights(8, 4, 2)))
        for execution in ("sparse", "dense")
    ]
    np.testing.assert_allclose(*outputs, rtol=1e-5, atol=1e-6)


def test_memory_is_a_quarter() -> None:
    experts = built(units=[64, 64], use_bias=False)
    sizes = [
        sum(to_numpy(weight).nbytes for weight in bank.weights)
        for bank in (experts, QuantizedExperts.of(experts))
    ]
    scales = 4 * 4 * (64 + 64)
    assert sizes[1] == sizes[0] / 4 + scales


def test_a_subset_has_the_weights_of_its_experts() -> None:
    bank = QuantizedExperts.of(built())
    kept = bank.subset([3, 1])
    assert type(kept) is QuantizedExperts
    for mine, theirs in zip(bank.weights, kept.weights, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(to_numpy(mine)[[3, 1]], to_numpy(theirs))


def test_a_file_keeps_integers(tmp_path: Path, rng) -> None:
    inputs = [keras.Input((5,)), keras.Input((4,))]
    bank = QuantizedExperts.of(built())
    mixture = MoE(GivenGate(4, k=2, bounded=True), bank)
    model = keras.Model(inputs, mixture(*inputs))
    model.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    for mine, theirs in zip(model.weights, loaded.weights, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(to_numpy(mine), to_numpy(theirs))


def test_biases_can_be_trained() -> None:
    bank = QuantizedExperts.of(built())
    names = [weight.name for weight in bank.trainable_weights]
    assert names == ["bias_0", "bias_1"]


def test_contract_of_a_layer(tmp_path, rng) -> None:
    check_layer(
        # Linear: relu has no gradient at the zeros of a new bank.
        lambda: QuantizedExperts(4, [6, 3], activation=None),
        rng.normal(size=(7, 5)).astype("float32"),
        folder=tmp_path,
        output_shape=(7, 4, 3),
        trainable_weights=2,
        non_trainable_weights=4,
    )


def test_kernels_that_are_not_finite() -> None:
    experts = built()
    kernel = to_numpy(experts.kernels[1]).copy()
    kernel[2, 0, 0] = np.nan
    experts.kernels[1].assign(kernel)
    with pytest.raises(ValueError, match="`experts` must have finite kernels"):
        QuantizedExperts.of(experts)
