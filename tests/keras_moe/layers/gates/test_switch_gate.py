import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import SwitchGate
from keras_moe.regularizers import load_balance_loss
from tests.gradients import weight_gradient
from tests.keras_moe.layers.gates.reference import build_with
from tests.keras_moe.layers.gates.reference import random_weights
from tests.keras_moe.layers.gates.reference import weigh
from tests.keras_moe.layers.layer_test import check_layer

X = np.array([[1.0, 2.0]], "float32")
KERNEL = np.log(np.array([[1, 2, 2], [2, 1, 1]], "float32"))
BIAS = np.log(np.array([1.0, 1.0, 4.0], "float32"))


def test_weights_by_hand_are_not_renormalized():
    gate = SwitchGate(3)
    build_with(gate, {"x": X, "kernel": KERNEL, "bias": BIAS})
    # exp(xA + c) = [1 · 2² · 1, 2 · 1² · 1, 2 · 1² · 4] = [4, 2, 8].
    np.testing.assert_allclose(to_numpy(gate(X)), [[0, 0, 8 / 14]], rtol=1e-6)


def test_selects_k():
    gate = SwitchGate(3, k=2)
    build_with(gate, {"x": X, "kernel": KERNEL, "bias": BIAS})
    np.testing.assert_allclose(
        to_numpy(gate(X)), [[4 / 14, 0, 8 / 14]], rtol=1e-6
    )


def test_matches_a_reference(rng):
    gate = SwitchGate(7)
    x = rng.normal(size=(20, 5)).astype("float32")
    arrays = {"x": x, **random_weights(gate, 5, rng)}
    exponentials = np.exp(x @ arrays["kernel"] + arrays["bias"])
    probabilities = exponentials / exponentials.sum(axis=-1, keepdims=True)
    largest = probabilities.max(axis=-1, keepdims=True)
    np.testing.assert_allclose(
        weigh(build_with(gate, arrays), x)[0],
        np.where(probabilities == largest, probabilities, 0),
        atol=1e-5,
    )


def test_jitter_multiplies_the_products_but_not_the_bias():
    gate = SwitchGate(3, k=3, jitter=0.25, seed=1)
    kernel = np.array([[2.0, 4.0, 0.0]], "float32")
    bias = np.array([5.0, 6.0, 7.0], "float32")
    build_with(gate, {"x": X[:, :1], "kernel": kernel, "bias": bias})
    inputs = np.ones((20_000, 1), "float32")
    logits = np.log(to_numpy(gate(inputs, training=True)))
    # The third product is 0: its logit is the bias alone.
    jittered = logits - logits[:, 2:] + bias[2]
    factors = ((jittered - bias) / [2.0, 4.0, 1.0])[:, :2]
    assert factors.min() >= 0.75 - 1e-4
    assert factors.max() <= 1.25 + 1e-4
    np.testing.assert_allclose(factors.mean(axis=0), 1, atol=0.01)
    np.testing.assert_allclose(
        factors.std(axis=0), 0.5 / np.sqrt(12), rtol=0.02
    )
    assert abs(np.corrcoef(factors.T)[0, 1]) < 0.03


def test_inference_draws_no_jitter():
    gate = SwitchGate(3, k=3, jitter=0.25)
    build_with(gate, {"x": X, "kernel": KERNEL, "bias": BIAS})
    np.testing.assert_allclose(
        to_numpy(gate(X)), [[4 / 14, 2 / 14, 8 / 14]], rtol=1e-6
    )


@pytest.mark.parametrize("use_bias", [False, True])
def test_without_jitter_training_changes_nothing(use_bias, rng):
    gate = SwitchGate(3, jitter=0.0, use_bias=use_bias)
    x = rng.normal(size=(4, 2)).astype("float32")
    np.testing.assert_array_equal(
        to_numpy(gate(x, training=True)), to_numpy(gate(x))
    )


@pytest.mark.parametrize("k", [1, 2])
def test_gradients_reach_the_kernel(k, rng):
    gate = SwitchGate(4, k=k)
    x = rng.normal(size=(6, 3)).astype("float32")
    gate.build(x.shape)
    (grad,) = weight_gradient(
        lambda: keras.ops.sum(keras.ops.square(gate(x))), [gate.kernel]
    )
    assert grad.any()


def test_load_balance_loss():
    gate = SwitchGate(3, jitter=0.0, load_balance_loss_weight=0.5)
    build_with(gate, {"x": X, "kernel": KERNEL, "bias": BIAS})
    _, (loss,) = weigh(gate, X, training=True)
    g = np.array([[4, 2, 8]], "float32") / 14
    np.testing.assert_allclose(
        loss, 0.5 * to_numpy(load_balance_loss(g, g > 0.5)), rtol=1e-5
    )


def test_padding_changes_no_other_weights(rng):
    x = rng.normal(size=(3, 4)).astype("float32")
    mask = np.array([True, False, True])
    first, second = (
        to_numpy(SwitchGate(5, seed=1)(array, training=True, mask=mask))
        for array in (x, x * [[1], [9], [1]])
    )
    np.testing.assert_array_equal(first, second)
    assert not first[1].any()


def test_is_always_sparse():
    assert SwitchGate(4).always_sparse
    assert SwitchGate(4).k == 1


@pytest.mark.parametrize(
    ("arguments", "trainable_weights", "losses"),
    [
        ({}, 2, 0),
        ({"k": 2, "use_bias": False, "load_balance_loss_weight": 0.01}, 1, 1),
    ],
)
def test_layer(arguments, trainable_weights, losses, rng, tmp_path):
    check_layer(
        lambda: SwitchGate(5, **arguments),
        rng.normal(size=(6, 4)).astype("float32"),
        folder=tmp_path,
        output_shape=(6, 5),
        trainable_weights=trainable_weights,
        training_losses=losses,
        follows_policy=False,
    )


def test_refuses_negative_jitter():
    with pytest.raises(
        ValueError, match=r"`jitter` must be a.*Received: jitter=-0.1"
    ):
        SwitchGate(3, jitter=-0.1)


@pytest.mark.parametrize("k", [0, 4])
def test_refuses_another_k(k):
    with pytest.raises(ValueError, match=rf"`k` must be .*Received: k={k}"):
        SwitchGate(3, k=k)
