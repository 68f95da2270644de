from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import TopKGate
from keras_moe.optimizers import Adam

OPTIONS: list[dict[str, Any]] = [
    {},
    {"amsgrad": True},
    {"clipvalue": 0.5},
    {"gradient_accumulation_steps": 2},
]


def bank(dtype: str = "float32") -> MLPExperts:
    """Four experts with kernels and biases."""
    experts = MLPExperts(4, 2, seed=0, dtype=dtype)
    experts.build((None, 3))
    return experts


def weights_after(
    optimizer: Any, variables: list[Any], steps: list[list[np.ndarray]]
) -> list[list[np.ndarray]]:
    """Weights and moments, after each step."""
    optimizer.build(variables)
    after = []
    for gradients in steps:
        optimizer.apply(
            [
                ops.convert_to_tensor(gradient, variable.dtype)
                for gradient, variable in zip(gradients, variables, strict=True)
            ],
            variables,
        )
        after.append(
            [
                ops.convert_to_numpy(ops.cast(each, "float32"))
                for each in [*variables, *optimizer.variables]
                if len(each.shape) > 1
            ]
        )
    return after


def skewed(num_steps: int) -> list[list[np.ndarray]]:
    """Gradients that are zero for expert 1, and for expert 2 after a step."""
    rng = np.random.default_rng(0)
    steps = []
    for step in range(num_steps):
        gradients = [rng.normal(size=(4, 3, 2)), rng.normal(size=(4, 2))]
        for gradient in gradients:
            gradient[1] = 0
            gradient[2] *= step == 0
        steps.append(gradients)
    return steps


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_experts_without_a_gradient_stay_as_they_are(
    dtype: str, amsgrad: bool
) -> None:
    experts = bank(dtype)
    variables = experts.trainable_variables
    start = ops.convert_to_numpy(ops.cast(variables[0], "float32"))
    optimizer = Adam(0.1, beta_2=0.9, amsgrad=amsgrad, lazy_experts=True)
    first, *_, last = weights_after(optimizer, variables, skewed(4))
    np.testing.assert_array_equal(last[0][1], start[1])
    for before, after in zip(first, last, strict=True):
        np.testing.assert_array_equal(before[1], after[1])
        np.testing.assert_array_equal(before[2], after[2])
        assert np.all(np.any(before[[0, 3]] != after[[0, 3]], axis=1))


@pytest.mark.parametrize("options", OPTIONS)
def test_experts_with_gradients_are_trained_as_by_adam(
    options: dict[str, Any],
) -> None:
    lazy, plain = (
        weights_after(optimizer, bank().trainable_variables, skewed(4))[-1]
        for optimizer in (
            Adam(0.1, lazy_experts=True, **options),
            keras.optimizers.Adam(0.1, **options),
        )
    )
    for a, b in zip(lazy, plain, strict=True):
        np.testing.assert_allclose(a[[0, 3]], b[[0, 3]], 1e-4, 1e-6)


def test_adam_moves_experts_without_a_gradient() -> None:
    first, *_, last = weights_after(
        Adam(0.1), bank().trainable_variables, skewed(4)
    )
    assert np.any(first[0][2] != last[0][2])


def test_other_weights_are_trained_as_by_adam() -> None:
    lazy, plain = (
        weights_after(
            optimizer,
            [keras.Variable(np.ones((4, 2)), dtype="float32", name="v")],
            [[np.array([[1.0, 2.0]] * 4)], [np.zeros((4, 2))]],
        )[-1]
        for optimizer in (Adam(0.1, lazy_experts=True), Adam(0.1))
    )
    for a, b in zip(lazy, plain, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_experts_without_rows_stay_as_they_are_in_fit(
    jit_compile: bool,
) -> None:
    if jit_compile and keras.backend.backend() == "torch":
        pytest.skip("fit compiles by a compiler of C++, which need not be here")
    gate = TopKGate(4, 1)
    experts = MLPExperts(4, 2, activation="linear")
    model = keras.Sequential([keras.Input((3,)), MoE(gate, experts)])
    # Expert 2 has the largest logit of all rows, which are above 0.
    gate.kernel.assign(np.eye(1, 4, 2).repeat(3, axis=0))
    before = np.array(experts.kernels[0].numpy())
    model.compile(Adam(0.1, lazy_experts=True), "mse", jit_compile=jit_compile)
    x = np.random.default_rng(0).uniform(size=(8, 3))
    model.fit(x, x[:, :2] + 5, batch_size=2, verbose=0)
    after = np.array(experts.kernels[0].numpy())
    others = [0, 1, 3]
    np.testing.assert_array_equal(after[others], before[others])
    assert np.any(after[2] != before[2])


def test_no_weight_decay() -> None:
    with pytest.raises(ValueError, match="`lazy_experts` must not be given"):
        Adam(0.1, lazy_experts=True, weight_decay=0.1)


def test_the_configuration_says_so() -> None:
    config = keras.optimizers.serialize(Adam(0.1, lazy_experts=True))
    assert keras.optimizers.deserialize(config).lazy_experts
