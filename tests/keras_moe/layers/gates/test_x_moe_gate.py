import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import XMoEGate
from tests.gradients import gradient
from tests.gradients import weight_gradient
from tests.keras_moe.layers.gates.reference import build_with
from tests.keras_moe.layers.gates.reference import random_weights
from tests.keras_moe.layers.gates.reference import weigh
from tests.keras_moe.layers.layer_test import check_layer

# The experts point up, to the right, and down.
COMPASS = np.array([[0.0, 7.0, 0.0], [2.0, 0.0, -1.0]], "float32")


def compass_gate(k, log_temperature=0.0, **kwargs):
    gate = XMoEGate(3, k=k, projection_dim=2, use_bias=False, **kwargs)
    return build_with(
        gate,
        {
            "x": np.zeros((1, 2), "float32"),
            "projection_kernel": np.eye(2, dtype="float32"),
            "expert_embeddings": COMPASS,
            "log_temperature": np.float32(log_temperature),
        },
    )


def test_weights_by_hand_are_not_renormalized():
    # Cosines [0.8, 0.6, -0.8]: lengths do not matter.
    p = np.exp([0.8, 0.6, -0.8]) / np.exp([0.8, 0.6, -0.8]).sum()
    for length in (1, 50):
        x = length * np.array([[0.6, 0.8]], "float32")
        np.testing.assert_allclose(
            to_numpy(compass_gate(k=2)(x)), [[p[0], p[1], 0]], rtol=1e-5
        )


def test_matches_a_reference(rng):
    gate = XMoEGate(7, k=7)
    x = rng.normal(size=(20, 5)).astype("float32")
    arrays = {"x": x, **random_weights(gate, 5, rng)}
    projected = x @ arrays["projection_kernel"] + arrays["projection_bias"]
    embeddings = arrays["expert_embeddings"]
    cosines = projected @ embeddings
    cosines /= np.linalg.norm(projected, axis=1, keepdims=True)
    cosines /= np.linalg.norm(embeddings, axis=0)
    temperature = max(np.exp(arrays["log_temperature"]), 0.01)
    exponentials = np.exp(cosines / temperature)
    np.testing.assert_allclose(
        weigh(build_with(gate, arrays), x)[0],
        exponentials / exponentials.sum(axis=-1, keepdims=True),
        atol=1e-5,
    )


def test_the_temperature_is_never_below_a_hundredth():
    x = np.array([[0.6, 0.8]], "float32")
    weights = [
        to_numpy(compass_gate(k=2, log_temperature=value)(x))
        for value in (-50.0, np.log(0.01))
    ]
    np.testing.assert_allclose(*weights, rtol=1e-4)


def test_weights_have_the_documented_shapes_and_values():
    gate = XMoEGate(9, k=2)
    gate.build((None, 3))
    assert gate.projection_kernel.shape == (3, 4)
    assert gate.projection_bias.shape == (4,)
    assert not to_numpy(gate.projection_bias).any()
    assert gate.expert_embeddings.shape == (4, 9)
    assert gate.log_temperature.shape == ()
    np.testing.assert_allclose(
        np.exp(to_numpy(gate.log_temperature)), 0.5, rtol=1e-6
    )


@pytest.mark.parametrize(("num_experts", "dim"), [(2, 1), (3, 1), (16, 8)])
def test_projects_to_half_as_many_dimensions_as_experts(num_experts, dim):
    assert XMoEGate(num_experts, k=1).projection_dim == dim


@pytest.mark.parametrize("k", [1, 2])
def test_gradients_reach_every_weight(k, rng):
    gate = XMoEGate(4, k=k)
    x = rng.normal(size=(6, 3)).astype("float32")
    gate.build(x.shape)
    grads = weight_gradient(
        lambda: keras.ops.sum(keras.ops.square(gate(x))),
        gate.trainable_weights,
    )
    assert len(grads) == 4
    assert all(grad.any() for grad in grads)


def test_inputs_without_direction_have_finite_gradients():
    gate = compass_gate(k=2)
    x = np.zeros((1, 2), "float32")
    np.testing.assert_allclose(
        to_numpy(gate(x)), [[1 / 3, 1 / 3, 0]], rtol=1e-6
    )
    (grad,) = gradient(lambda x: gate(x)[0, 0], x)
    assert np.isfinite(grad).all()


def test_is_always_sparse():
    assert XMoEGate(4, k=2).always_sparse
    assert XMoEGate(4, k=2).k == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "trainable_weights", "losses"),
    [
        ({"k": 2, "embeddings_regularizer": "l2"}, 4, 0),
        (
            {
                "k": 1,
                "use_bias": False,
                "projection_dim": 3,
                "temperature": 0.07,
                "load_balance_loss_weight": 0.01,
            },
            3,
            1,
        ),
    ],
)
def test_layer(arguments, trainable_weights, losses, rng, tmp_path):
    check_layer(
        lambda: XMoEGate(5, **arguments),
        rng.normal(size=(6, 4)).astype("float32"),
        folder=tmp_path,
        output_shape=(6, 5),
        trainable_weights=trainable_weights,
        training_losses=losses,
        follows_policy=False,
    )


@pytest.mark.parametrize(
    ("argument", "value", "error"),
    [
        ("k", 0, ValueError),
        ("k", 4, ValueError),
        ("projection_dim", 0, ValueError),
        ("projection_dim", 1.5, TypeError),
        ("temperature", 0, ValueError),
        ("temperature", 0.005, ValueError),
    ],
)
def test_refuses(argument, value, error):
    with pytest.raises(
        error, match=rf"`{argument}` must be .*Received: {argument}={value}"
    ):
        XMoEGate(3, **{"k": 2, argument: value})
