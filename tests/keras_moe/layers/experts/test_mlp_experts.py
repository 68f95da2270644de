import re
from pathlib import Path

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import TopKGate
from tests.keras_moe.layers.layer_test import check_layer


def test_each_expert_is_a_perceptron_of_its_own() -> None:
    experts = MLPExperts(2, 1, kernel_initializer="ones")
    experts.build((None, 2))
    experts.kernels[0].assign([[[1.0], [1.0]], [[2.0], [-9.0]]])
    experts.biases[0].assign([[0.5], [0.0]])
    # x = (1, 2): relu(1 + 2 + 0.5) and relu(2 - 18).
    assert to_numpy(experts(np.array([[1.0, 2.0]]))).tolist() == [
        [[3.5], [0.0]]
    ]


def test_all_layers_match_numpy(rng: np.random.Generator) -> None:
    experts = MLPExperts(3, [4, 5], bias_initializer="random_normal", seed=0)
    x = rng.normal(size=(7, 6)).astype("float32")
    outputs = to_numpy(experts(x))
    for expert in range(3):
        expected = x
        for kernel, bias in zip(experts.kernels, experts.biases, strict=True):
            expected = np.maximum(
                expected @ to_numpy(kernel)[expert] + to_numpy(bias)[expert], 0
            )
        np.testing.assert_allclose(
            outputs[:, expert], expected, rtol=1e-4, atol=1e-6
        )


def test_groups_are_computed_by_their_expert(rng: np.random.Generator) -> None:
    experts = MLPExperts(3, [4, 5], bias_initializer="random_normal", seed=0)
    rows = rng.normal(size=(6, 6)).astype("float32")
    outputs = to_numpy(experts(rows, group_sizes=np.array([2, 0, 3], "int32")))
    every = to_numpy(experts(rows))  # (6, 3, 5)
    np.testing.assert_allclose(outputs[:2], every[:2, 0], rtol=1e-5)
    np.testing.assert_allclose(outputs[2:5], every[2:5, 2], rtol=1e-5)
    assert outputs.shape == (6, 5)
    assert np.isfinite(outputs[5]).all()


def test_experts_are_drawn_apart_with_their_own_fans() -> None:
    experts = MLPExperts(
        4, 50, kernel_initializer=keras.initializers.GlorotUniform(seed=3)
    )
    experts.build((None, 100))
    kernel = to_numpy(experts.kernels[0])
    for expert in range(1, 4):
        assert not np.allclose(kernel[0], kernel[expert])
    # U(-limit, limit) of fan in 100 and fan out 50, whatever the number of
    # experts.
    limit = np.sqrt(6 / 150)
    assert 0.98 * limit < np.abs(kernel).max() <= limit


def test_a_seed_makes_the_weights_repeatable() -> None:
    first, second = (MLPExperts(2, 3, seed=1) for _ in range(2))
    first.build((None, 4))
    second.build((None, 4))
    np.testing.assert_array_equal(
        to_numpy(first.kernels[0]), to_numpy(second.kernels[0])
    )


def test_dropout_drops_only_while_training() -> None:
    experts = MLPExperts(2, 200, dropout=0.5, kernel_initializer="ones", seed=0)
    x = np.ones((3, 1), "float32")
    assert (to_numpy(experts(x)) == 1).all()
    dropped = to_numpy(experts(x, training=True))
    assert set(np.unique(dropped)) == {0.0, 2.0}
    assert 0.4 < (dropped == 0).mean() < 0.6
    assert not np.array_equal(dropped, to_numpy(experts(x, training=True)))


def test_each_layer_may_have_its_own_activation(
    rng: np.random.Generator,
) -> None:
    experts = MLPExperts(3, [4, 5], activation=["tanh", None], seed=0)
    x = rng.normal(size=(7, 6)).astype("float32")
    every = to_numpy(experts(x))
    for expert in range(3):
        first, second = (to_numpy(kernel)[expert] for kernel in experts.kernels)
        np.testing.assert_allclose(
            every[:, expert], np.tanh(x @ first) @ second, rtol=1e-4, atol=1e-6
        )
    assert MLPExperts.from_config(experts.get_config()).activations == [
        keras.activations.tanh,
        keras.activations.linear,
    ]


@pytest.mark.parametrize("execution", ["sparse", "dense"])
def test_a_mixture_knows_each_layers_activation(
    execution: str, rng: np.random.Generator
) -> None:
    """Sparse execution fuses activations with the matmuls."""
    experts = MLPExperts(3, [4, 5], activation=["gelu", None], seed=0)
    layer = MoE(TopKGate(3, k=2, seed=0), experts, execution=execution)
    x = rng.normal(size=(7, 6)).astype("float32")
    outputs = to_numpy(layer(x))
    weights = to_numpy(layer.gate(x))  # (N, E)
    expected = np.einsum("ne,neh->nh", weights, to_numpy(experts(x)))
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-6)


def test_it_is_a_proper_layer(tmp_path: Path, rng: np.random.Generator) -> None:
    check_layer(
        lambda: MLPExperts(3, [4, 2], dropout=0.25, kernel_regularizer="l2"),
        rng.normal(size=(5, 6)).astype("float32"),
        folder=tmp_path,
        output_shape=(5, 3, 2),
        trainable_weights=4,
    )


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_experts": 0}, ValueError, "`num_experts` must be at least 1"),
        ({"units": 0}, ValueError, "`units` must be at least 1"),
        ({"units": []}, ValueError, "`units` must name at least one width"),
        ({"units": "8"}, TypeError, "`units` must be an integer"),
        (
            {"units": [4, 2], "activation": ["relu"]},
            ValueError,
            "`activation` as a list must have one entry per layer, 2",
        ),
        ({"dropout": 1.0}, ValueError, "`dropout` must be in [0, 1)"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        MLPExperts(**{"num_experts": 2, "units": 4, **arguments})
    assert "Received: " in str(caught.value)
