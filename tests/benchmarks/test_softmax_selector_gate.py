from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from tests.gradients import weight_gradient
from tests.keras_moe.layers.gates.reference import weigh
from tests.keras_moe.layers.layer_test import check_layer

TASKS = np.eye(3, dtype="float32")
# Two selectors of three experts for each of three tasks.
SELECTORS = np.log(
    [
        [[1, 1, 2], [2, 1, 1]],
        [[8, 1, 1], [1, 1, 8]],
        [[1, 3, 1], [1, 3, 1]],
    ]
).astype("float32")
WEIGHTS = np.log([[1, 1], [1, 3], [4, 1]]).astype("float32")


@pytest.fixture
def gates(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("softmax_selector_gate")


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def reference(temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights (T, n) and selectors (T, k, n), one task and selector each."""
    weights, selectors = np.zeros((3, 3)), np.zeros((3, 2, 3))
    for task in range(3):
        for selector in range(2):
            chosen = softmax(SELECTORS[task, selector] / temperature)
            selectors[task, selector] = chosen
            weights[task] += softmax(WEIGHTS[task])[selector] * chosen
    return weights, selectors


def with_known_weights(gate: Any) -> Any:
    gate.build(TASKS.shape)
    gate.selector_kernel.assign(SELECTORS)
    gate.weight_kernel.assign(WEIGHTS)
    return gate


def test_weights_by_hand(gates: ModuleType) -> None:
    gate = with_known_weights(gates.SoftmaxSelectorGate(3, k=2))
    np.testing.assert_allclose(
        to_numpy(gate(TASKS))[:2],
        # Halves of (1, 1, 2)/4 and (2, 1, 1)/4; 1/4 of (8, 1, 1)/10, the rest
        # of (1, 1, 8)/10.
        [[3 / 8, 1 / 4, 3 / 8], [11 / 40, 1 / 10, 25 / 40]],
        rtol=1e-5,
    )


def test_weights_and_entropy_match_a_reference(gates: ModuleType) -> None:
    gate = gates.SoftmaxSelectorGate(3, k=2, entropy_weight=0.5)
    weights, (loss,) = weigh(with_known_weights(gate), TASKS, training=True)
    expected, selectors = reference(1.0)
    np.testing.assert_allclose(weights, expected, rtol=1e-5)
    entropies = -(selectors * np.log(selectors)).sum(axis=(1, 2))
    np.testing.assert_allclose(loss, 0.5 * entropies.mean(), rtol=1e-4)


def test_the_temperature_falls_evenly_on_a_logarithmic_scale(
    gates: ModuleType,
) -> None:
    gate = gates.AnnealedSoftmaxSelectorGate(
        3, k=2, first_temperature=2.0, num_steps=5
    )
    with_known_weights(gate)
    temperatures = []
    for expected in np.geomspace(2.0, 1e-16, num=5):
        temperatures.append(float(to_numpy(gate.temperature())))
        np.testing.assert_allclose(
            to_numpy(gate(TASKS, training=True)),
            reference(expected)[0],
            rtol=1e-3,
            atol=1e-6,
        )
    np.testing.assert_allclose(
        temperatures, np.geomspace(2.0, 1e-16, num=5), rtol=1e-4
    )
    # Inference counts no step, and steps beyond the last change nothing.
    gate(TASKS)
    gate(TASKS, training=True)
    np.testing.assert_allclose(to_numpy(gate.temperature()), 1e-16, rtol=1e-4)


def test_annealing_ends_in_one_expert_per_selector(gates: ModuleType) -> None:
    gate = gates.AnnealedSoftmaxSelectorGate(
        8, k=2, first_temperature=1e-3, num_steps=10, seed=0
    )
    gate.build(TASKS.shape)
    gate.num_updates.assign(9)
    weights, _ = weigh(gate, TASKS)  # Compiled on JAX.
    assert ((weights > 0).sum(axis=-1) <= 2).all()
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5)
    grads = weight_gradient(
        lambda: keras.ops.sum(keras.ops.square(gate(TASKS, training=True))),
        gate.trainable_weights,
    )
    assert all(np.isfinite(grad).all() for grad in grads)


@pytest.mark.traced_once("tensorflow")
@pytest.mark.parametrize(
    ("name", "arguments", "losses", "counters"),
    [
        ("SoftmaxSelectorGate", {"entropy_weight": 0.1}, 1, 0),
        (
            "AnnealedSoftmaxSelectorGate",
            {"first_temperature": 1.0, "num_steps": 1000},
            0,
            1,
        ),
    ],
)
def test_layer(
    name: str,
    arguments: dict[str, float],
    losses: int,
    counters: int,
    gates: ModuleType,
    tmp_path: Path,
) -> None:
    check_layer(
        lambda: getattr(gates, name)(5, k=2, **arguments),
        np.random.default_rng(0).normal(size=(6, 4)).astype("float32"),
        folder=tmp_path,
        output_shape=(6, 5),
        trainable_weights=2,
        non_trainable_weights=counters,
        training_losses=losses,
        follows_policy=False,
    )


@pytest.mark.parametrize(
    ("argument", "value"), [("first_temperature", 0), ("num_steps", 1)]
)
def test_refuses(argument: str, value: float, gates: ModuleType) -> None:
    arguments = {"first_temperature": 1.0, "num_steps": 2, argument: value}
    with pytest.raises(
        ValueError, match=rf"`{argument}` must be.*Received: {argument}={value}"
    ):
        gates.AnnealedSoftmaxSelectorGate(4, k=2, **arguments)
    with pytest.raises(ValueError, match="Received: entropy_weight=-1"):
        gates.SoftmaxSelectorGate(4, k=2, entropy_weight=-1)
