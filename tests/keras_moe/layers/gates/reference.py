"""Comparing gates with reference outputs."""

from typing import Any

import keras
import numpy as np

from keras_moe.layers import Gate
from tests.compiled import compiled
from tests.gradients import gradient

Arrays = dict[str, np.ndarray]


def build_with(gate: Gate, arrays: Arrays) -> Gate:
    """Gives every weight of a gate its values, by name."""
    if not gate.built:
        build_cheaply(gate, arrays["x"].shape if "x" in arrays else (None, 1))
    for weight in gate.weights:
        weight.assign(arrays[weight.name])
    return gate


def build_cheaply(gate: Gate, input_shape: tuple[int | None, ...]) -> None:
    """Builds a gate whose weights are replaced anyway, without drawing any.

    JAX compiles the draws anew for every shape.
    """
    for name in vars(gate):
        if name.endswith("_initializer"):
            setattr(gate, name, keras.initializers.Zeros())
    gate.build(input_shape)


def weigh(
    gate: Gate, inputs: Any, training: bool = False
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The weights for some inputs, and the losses that go with them."""

    def call(inputs: Any) -> Any:
        with keras.StatelessScope(collect_losses=True) as scope:
            weights = gate(inputs, training=training)
        return weights, scope.losses

    return compiled(call)(inputs)


def check_oracle(gate: Gate, case: Arrays) -> list[np.ndarray]:
    """Compares weights, and gradients if any; returns the losses."""
    build_with(gate, case)
    inputs = case.get("x", np.zeros((1, 1), "float32"))
    weights, losses = weigh(gate, inputs, training=True)
    np.testing.assert_allclose(weights, case["gate"], rtol=1e-5, atol=1e-5)
    if "grad_x" in case:
        _check_gradient(gate, inputs, case)
    return losses


def _check_gradient(gate: Gate, inputs: Any, case: Arrays) -> None:
    def projection(x: Any) -> Any:
        return keras.ops.sum(keras.ops.multiply(gate(x), case["cotangent"]))

    (grad,) = gradient(projection, inputs)
    expected = case["grad_x"]
    np.testing.assert_allclose(
        grad, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max()
    )


def random_weights(
    gate: Gate, num_features: int, rng: np.random.Generator
) -> Arrays:
    """Standard normal values for all weights of a gate, by name."""
    build_cheaply(gate, (None, num_features))
    return {
        weight.name: rng.normal(size=weight.shape).astype("float32")
        for weight in gate.weights
    }
