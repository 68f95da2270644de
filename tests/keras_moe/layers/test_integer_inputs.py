"""Integers are taken as numbers, as `keras.layers.Dense` takes them."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from keras_moe.layers import CGC
from keras_moe.layers import ConditionallyOverlappingMLP
from keras_moe.layers import ConditionalMask
from keras_moe.layers import LayerExperts
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import SinkhornPermutation
from keras_moe.layers import SoftMoE
from keras_moe.layers import TopKGate
from tests.compiled import compiled

pytestmark = pytest.mark.usefixtures("sparse_pays")

ROWS, WIDTH = 5, 4


def dense_layers() -> list[keras.layers.Layer]:
    return [keras.layers.Dense(3) for _ in range(4)]


def cgc() -> CGC:
    return CGC(
        {"a": TopKGate(4, k=2), "b": TopKGate(4, k=1)},
        shared_experts=MLPExperts(2, 3),
        task_experts={"a": MLPExperts(2, 3), "b": MLPExperts(2, 3)},
    )


def mmoe() -> MMoE:
    return MMoE([TopKGate(4, k=2), TopKGate(4, k=1)], MLPExperts(4, [5, 3]))


LAYERS: dict[str, Callable[[], keras.layers.Layer]] = {
    "MLPExperts": lambda: MLPExperts(4, 3),
    "LayerExperts": lambda: LayerExperts(dense_layers()),
    "MoE dense": lambda: MoE(TopKGate(4, k=2), MLPExperts(4, 3), "dense"),
    "MoE sparse": lambda: MoE(TopKGate(4, k=2), MLPExperts(4, 3), "sparse"),
    "MoE of layers": lambda: MoE(TopKGate(4, k=2), dense_layers(), "sparse"),
    "MMoE": mmoe,
    "CGC": cgc,
    "SoftMoE": lambda: SoftMoE(MLPExperts(2, 3)),
    "ConditionallyOverlappingMLP": lambda: ConditionallyOverlappingMLP(
        [6, 3], keep_rate=0.5
    ),
    "its active units": lambda: ConditionallyOverlappingMLP(
        [6, 3], keep_rate=0.5, execution="sparse"
    ),
    "SinkhornPermutation": lambda: SinkhornPermutation(WIDTH),
    "gate": lambda: TopKGate(4, k=2),
}


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, "int32") for name in LAYERS),
        *(("MoE sparse", dtype) for dtype in ("uint8", "int64", "bool")),
    ],
)
def test_integers_are_what_floats_of_their_values_are(
    name: str, dtype: str, rng: np.random.Generator
) -> None:
    layer = LAYERS[name]()
    inputs = rng.integers(0, 3, size=(ROWS, WIDTH)).astype(dtype)
    layer.build(inputs.shape)
    assert_alike(layer, inputs)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["MoE sparse", "SoftMoE", "MLPExperts"])
def test_half_precision_computes_them_in_half_precision(
    name: str, rng: np.random.Generator
) -> None:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        layer = LAYERS[name]()
    finally:
        keras.config.set_dtype_policy(before)
    inputs = rng.integers(0, 3, size=(ROWS, WIDTH))
    layer.build(inputs.shape)
    assert (
        layer(inputs.astype("int32")).dtype
        == layer(inputs.astype("float32")).dtype
    )
    assert_alike(layer, inputs.astype("int32"))


def test_a_mask_takes_them_on_both_sides(rng: np.random.Generator) -> None:
    layer = ConditionalMask(0.5)
    inputs = rng.integers(0, 9, size=(ROWS, 6)).astype("int32")
    routing = rng.integers(0, 9, size=(ROWS, WIDTH)).astype("int32")
    layer.build(inputs.shape, routing.shape)
    assert_alike(layer, inputs, routing)


def assert_alike(layer: keras.layers.Layer, *arrays: Any) -> None:
    run = compiled(layer)
    outputs = keras.tree.flatten(run(*arrays))
    floats = [array.astype("float32") for array in arrays]
    for output, expected in zip(
        outputs, keras.tree.flatten(run(*floats)), strict=True
    ):
        np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)
