"""Decisions that begin with examples on both of their sides."""

from typing import Any

import keras
import numpy as np
import pytest

from keras_moe.layers import COMETGate
from keras_moe.layers import DSelectKGate
from keras_moe.layers import Gate

GAMMA = 0.1
ROWS, WIDTH = 64, 30
# The names of its weights, and what draws them.
DECISIONS: dict[type[Gate], str] = {
    COMETGate: "split",
    DSelectKGate: "selector",
}


def made(gate_class: Any, **options: Any) -> Any:
    gate = gate_class(8, k=2, gamma=GAMMA, seed=0, **options)
    gate.build((ROWS, WIDTH))
    return gate


def kernel_and_bias(gate: Gate) -> tuple[np.ndarray, np.ndarray]:
    name = DECISIONS[type(gate)]
    kernel, bias = (
        keras.ops.convert_to_numpy(getattr(gate, f"{name}_{part}"))
        for part in ("kernel", "bias")
    )
    return kernel, bias


@pytest.mark.parametrize("gate_class", DECISIONS)
def test_kernels_are_drawn_as_wide_as_they_are_told(gate_class: Any) -> None:
    kernel, bias = kernel_and_bias(made(gate_class, kernel_spread=0.3))
    assert 0.28 * GAMMA < np.abs(kernel).max() <= 0.3 * GAMMA
    assert 0 < np.abs(bias).max() <= GAMMA / 100
    kernel, bias = kernel_and_bias(made(gate_class))
    assert 0 < np.abs(kernel).max() <= GAMMA / 100


@pytest.mark.parametrize("gate_class", DECISIONS)
def test_the_initializer_is_that_of_biases_then(gate_class: Any) -> None:
    options = {f"{DECISIONS[gate_class]}_initializer": "ones"}
    gate = made(gate_class, kernel_spread=0.3, **options)
    kernel, bias = kernel_and_bias(gate)
    assert (bias == 1).all()
    assert np.abs(kernel).max() <= 0.3 * GAMMA
    again = type(gate).from_config(gate.get_config())
    again.build((ROWS, WIDTH))
    np.testing.assert_array_equal(kernel_and_bias(again)[0], kernel)


@pytest.mark.parametrize("gate_class", DECISIONS)
def test_examples_are_on_both_sides_of_each_decision(gate_class: Any) -> None:
    x = np.random.default_rng(0).normal(size=(ROWS, WIDTH))
    kernel, bias = kernel_and_bias(made(gate_class, kernel_spread=0.3))
    left = np.tensordot(x, kernel, 1) + bias < 0
    share = left.mean(axis=0)
    assert (share > 0.2).all()
    assert (share < 0.8).all()


@pytest.mark.parametrize("gate_class", DECISIONS)
@pytest.mark.parametrize("spread", [0, -1.0, float("nan"), "wide"])
def test_what_is_no_spread(gate_class: Any, spread: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="`kernel_spread` must"):
        made(gate_class, kernel_spread=spread)
