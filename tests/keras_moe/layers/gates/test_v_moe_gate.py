import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import VMoEGate
from keras_moe.regularizers import importance_loss
from keras_moe.regularizers import load_loss
from tests.gradients import weight_gradient
from tests.keras_moe.layers.gates.reference import build_with
from tests.keras_moe.layers.gates.reference import random_weights
from tests.keras_moe.layers.gates.reference import weigh
from tests.keras_moe.layers.layer_test import check_layer


def identity_gate(k, **kwargs):
    """A gate whose logits are its inputs, but for the noise."""
    gate = VMoEGate(4, k=k, use_bias=False, **kwargs)
    gate.build((None, 4))
    gate.kernel.assign(np.eye(4))
    return gate


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def reference(logits, k):
    """The k largest probabilities of each row."""
    probabilities = softmax(logits)
    order = np.argsort(-logits, axis=-1, kind="stable")
    weights = np.zeros_like(probabilities)
    kept = np.take_along_axis(probabilities, order[:, :k], axis=-1)
    np.put_along_axis(weights, order[:, :k], kept, axis=-1)
    return weights


def test_weights_by_hand_are_not_renormalized():
    logits = np.log(np.array([[1.0, 4.0, 3.0, 2.0]], "float32"))
    np.testing.assert_allclose(
        to_numpy(identity_gate(k=2)(logits)), [[0, 0.4, 0.3, 0]], rtol=1e-6
    )


@pytest.mark.parametrize("k", [1, 3])
def test_matches_a_reference(k, rng):
    gate = VMoEGate(7, k=k)
    x = rng.normal(size=(20, 5)).astype("float32")
    arrays = {"x": x, **random_weights(gate, 5, rng)}
    np.testing.assert_allclose(
        weigh(build_with(gate, arrays), x)[0],
        reference(x @ arrays["kernel"] + arrays["bias"], k),
        atol=1e-5,
    )


def test_noise_has_the_documented_scale_and_only_training_draws_it():
    gate = identity_gate(k=4, noise_std=2.0, seed=1)
    inputs = np.full((20_000, 4), 0.25, "float32")
    np.testing.assert_allclose(to_numpy(gate(inputs)), 0.25, rtol=1e-6)
    logits = np.log(to_numpy(gate(inputs, training=True)))
    # Differences of two: their standard deviation is √2 · 2 / n.
    noise = logits[:, 1:] - logits[:, :1]
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=0.02)
    np.testing.assert_allclose(noise.std(axis=0), np.sqrt(0.5), rtol=0.02)


def test_without_noise_training_changes_nothing():
    gate = identity_gate(k=2, noise_std=0.0)
    x = np.eye(4, dtype="float32")
    np.testing.assert_array_equal(
        to_numpy(gate(x, training=True)), to_numpy(gate(x))
    )


@pytest.mark.parametrize("k", [1, 2])
def test_gradients_reach_the_kernel(k, rng):
    gate = VMoEGate(4, k=k)
    x = rng.normal(size=(6, 3)).astype("float32")
    gate.build(x.shape)
    (grad,) = weight_gradient(
        lambda: keras.ops.sum(keras.ops.square(gate(x))), [gate.kernel]
    )
    assert grad.any()


def test_importance_is_that_of_the_dense_softmax_without_noise(rng):
    x = rng.normal(size=(8, 4)).astype("float32")
    _, (loss,) = weigh(identity_gate(k=1, importance_loss_weight=3.0), x, True)
    np.testing.assert_allclose(
        loss, 3.0 * to_numpy(importance_loss(softmax(x))), rtol=1e-5
    )


@pytest.mark.parametrize(("noise_std", "std"), [(2.0, 0.5), (0.0, 0.25)])
def test_load_is_that_of_the_noise_or_of_the_default_without(
    noise_std, std, rng
):
    x = rng.normal(size=(8, 4)).astype("float32")
    gate = identity_gate(k=2, load_loss_weight=3.0, noise_std=noise_std, seed=1)
    _, (loss,) = weigh(gate, x, training=True)
    drawn = keras.random.normal(x.shape, seed=keras.random.SeedGenerator(1))
    noisy = x + noise_std / 4 * to_numpy(drawn)
    np.testing.assert_allclose(
        loss, 3.0 * to_numpy(load_loss(x, noisy, 2, std)), rtol=1e-5
    )


def test_padding_changes_no_other_weights(rng):
    x = rng.normal(size=(3, 4)).astype("float32")
    mask = np.array([True, False, True])
    first, second = (
        to_numpy(identity_gate(k=2, seed=1)(array, training=True, mask=mask))
        for array in (x, x * [[1], [9], [1]])
    )
    np.testing.assert_array_equal(first, second)
    assert not first[1].any()


def test_is_always_sparse():
    gate = VMoEGate(4, k=2)
    assert gate.always_sparse
    assert gate.k == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "losses"),
    [
        ({"k": 2}, 0),
        (
            {
                "k": 1,
                "importance_loss_weight": 0.1,
                "load_loss_weight": 0.1,
                "seed": 3,
            },
            2,
        ),
    ],
)
def test_layer(arguments, losses, rng, tmp_path):
    check_layer(
        lambda: VMoEGate(5, **arguments),
        rng.normal(size=(6, 4)).astype("float32"),
        folder=tmp_path,
        output_shape=(6, 5),
        trainable_weights=2,
        training_losses=losses,
        follows_policy=False,
    )


def test_refuses_negative_noise():
    with pytest.raises(
        ValueError, match=r"`noise_std` must be a.*Received: noise_std=-1"
    ):
        VMoEGate(3, k=2, noise_std=-1)


@pytest.mark.parametrize("k", [0, 4])
def test_refuses_another_k(k):
    with pytest.raises(ValueError, match=rf"`k` must be .*Received: k={k}"):
        VMoEGate(3, k=k)
