from typing import Any

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

if keras.backend.backend() != "jax":
    pytest.skip("the ways of JAX", allow_module_level=True)

import jax

from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import TopKGate
from keras_moe.ops import _ragged_dot
from keras_moe.ops import grouped_matmul
from tests.gradients import gradient

DECISION = "keras_moe.ops._ragged_dot.has_ragged_kernel"


@pytest.mark.parametrize(
    ("platform", "expected"), [("cpu", False), ("gpu", True), ("tpu", True)]
)
def test_the_device_decides(
    platform: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    assert _ragged_dot.has_ragged_kernel() is expected
    with jax.default_device(jax.devices("cpu")[0]):
        assert not _ragged_dot.has_ragged_kernel()


def test_a_mixture_is_the_same_with_the_kernel(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    experts = MLPExperts(4, [8, 3], activation=["relu", None], seed=0)
    layer = MoE(TopKGate(4, k=2, seed=0), experts, execution="sparse")
    inputs = rng.normal(size=(20, 5)).astype("float32")
    layer.build(inputs.shape)

    def loss(inputs: Any) -> Any:
        return keras.ops.sum(keras.ops.square(layer(inputs) - 1))

    def steps() -> str:
        # A new function each time: JAX remembers what it has traced.
        return str(jax.make_jaxpr(lambda rows: layer(rows))(inputs))

    assert "ragged_dot" not in steps()
    outputs = to_numpy(layer(inputs))
    (of_inputs,) = gradient(loss, inputs)
    monkeypatch.setattr(DECISION, lambda: True)
    assert "ragged_dot" in steps()
    np.testing.assert_allclose(
        to_numpy(layer(inputs)), outputs, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        gradient(loss, inputs)[0], of_inputs, rtol=1e-4, atol=1e-5
    )


def test_a_row_with_nan_is_no_others_affair(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr(DECISION, lambda: True)
    inputs = rng.normal(size=(6, 3)).astype("float32")
    inputs[2] = inputs[5] = np.nan  # Of the first group, and behind the last.
    kernels = rng.normal(size=(3, 3, 4)).astype("float32")
    sizes = np.array([3, 0, 2], "int32")
    products = to_numpy(grouped_matmul(inputs, kernels, sizes))
    assert np.isnan(products).all(axis=1).tolist() == [
        row == 2 for row in range(6)
    ]

    def total(kernels: Any) -> Any:
        return keras.ops.sum(grouped_matmul(inputs, kernels, sizes))

    (of_kernels,) = gradient(total, kernels)
    assert np.isnan(of_kernels[0]).all()
    assert np.isfinite(of_kernels[1:]).all()
