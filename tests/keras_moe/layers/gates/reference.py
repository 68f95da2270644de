"""Comparing gates with reference outputs."""

from typing import Any

import keras
import numpy as np
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import Gate
from tests.gradients import gradient

Arrays = dict[str, np.ndarray]


def build_with(gate: Gate, arrays: Arrays) -> Gate:
    """Gives every weight of a gate its values, by name."""
    if not gate.built:
        gate.build(arrays["x"].shape if "x" in arrays else (None, 1))
    for weight in gate.weights:
        weight.assign(arrays[weight.name])
    return gate


def check_oracle(gate: Gate, case: Arrays) -> None:
    """Compares a gate's weights, and gradients if any, with a reference's."""
    build_with(gate, case)
    inputs = case.get("x", np.zeros((1, 1), "float32"))
    np.testing.assert_allclose(to_numpy(gate(inputs)), case["gate"], atol=1e-5)
    if "grad_x" not in case:
        return

    def projection(x: Any) -> Any:
        return keras.ops.sum(keras.ops.multiply(gate(x), case["cotangent"]))

    (slope,) = gradient(projection, inputs)
    expected = case["grad_x"]
    np.testing.assert_allclose(
        slope, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max()
    )


def random_weights(
    gate: Gate, num_features: int, rng: np.random.Generator
) -> Arrays:
    """Standard normal values for all weights of a gate, by name."""
    gate.build((None, num_features))
    return {
        weight.name: rng.normal(size=weight.shape).astype("float32")
        for weight in gate.weights
    }
