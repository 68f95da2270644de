import re

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import ReMoEGate
from tests.keras_moe.layers.gates.reference import build_with
from tests.keras_moe.layers.gates.reference import random_weights
from tests.keras_moe.layers.gates.reference import weigh
from tests.keras_moe.layers.layer_test import check_layer

# Of three experts, 2, 1 and 0 are active: half of two examples' experts.
X = np.array([[1.0], [-1.0]], "float32")
KERNEL = np.array([[2.0, -3.0, -1.0]], "float32")
BIAS = np.array([0.0, 0.0, -1.0], "float32")
WEIGHTS = np.array([[2, 0, 0], [0, 3, 0]])


def make_gate(penalty=0.5, **arguments):
    gate = ReMoEGate(3, **{"k": 1, **arguments})
    return build_with(
        gate, {"x": X, "kernel": KERNEL, "bias": BIAS, "penalty": penalty}
    )


def test_weights_by_hand():
    np.testing.assert_array_equal(to_numpy(make_gate()(X)), WEIGHTS)


def test_matches_a_reference(rng):
    gate = ReMoEGate(7, k=2, balanced=False)
    x = rng.normal(size=(20, 5)).astype("float32")
    arrays = {"x": x, **random_weights(gate, 5, rng), "penalty": np.float32(2)}
    weights, (loss,) = weigh(build_with(gate, arrays), x, training=True)
    expected = np.maximum(x @ arrays["kernel"] + arrays["bias"], 0)
    np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(loss, 2 * expected.sum(axis=1).mean(), rtol=1e-4)


def test_busy_experts_are_dearer():
    _, (loss,) = weigh(make_gate(k=2), X, training=True)
    # f = 3/2 (1/2, 1/2, 0), so that the examples cost 2 f_1 and 3 f_2.
    np.testing.assert_allclose(loss, 0.5 * (1.5 + 2.25) / 2, rtol=1e-6)


@pytest.mark.parametrize("k", [2, 3])
def test_the_penalty_falls_where_there_are_fewer_than_k(k):
    gate = make_gate(k=k, growth=1.5)
    gate(X, training=True)
    assert float(gate.penalty) == pytest.approx(0.5 / 1.5)


def test_the_penalty_rises_where_there_are_more_than_k():
    gate = make_gate(growth=1.5)
    gate(X, training=True)
    assert float(gate.penalty) == 0.5
    gate.bias.assign([4.0, 4.0, -1.0])
    gate(X, training=True)
    assert float(gate.penalty) == pytest.approx(0.75)


def test_inference_changes_no_penalty_and_adds_none():
    gate = make_gate()
    _, losses = weigh(gate, X)
    assert losses == []
    assert float(gate.penalty) == 0.5


def test_padding_and_nan_do_not_count():
    inputs = np.array([[1.0], [-1.0], [5.0], [np.nan]], "float32")
    gate = make_gate(growth=1.5)
    gate.bias.assign([4.0, 4.0, -2.0])
    # The second example has two experts, the one with NaN none.
    gate(inputs, training=True, mask=np.array([False, True, False, True]))
    assert float(gate.penalty) == 0.5


def test_an_example_with_nan_stays_one():
    weights = to_numpy(make_gate()(np.array([[np.nan], [1.0]], "float32")))
    assert np.isnan(weights[0]).all()
    np.testing.assert_array_equal(weights[1], WEIGHTS[0])


@pytest.mark.traced_once("jax")
@pytest.mark.slow
def test_training_comes_to_k_experts_an_example(rng):
    inputs = rng.normal(size=(64, 8)).astype("float32")
    gate = ReMoEGate(8, k=2, initial_penalty=1e-3, growth=1.05, seed=0)
    layers = [keras.Input((8,)), gate, keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile(keras.optimizers.Adam(0.01), loss="mse")
    targets = inputs.sum(axis=1, keepdims=True)

    counts = []

    def count(*_):
        counts.append((to_numpy(gate(inputs)) > 0).sum(axis=1).mean())

    count()
    # Epochs of ten steps.
    model.fit(
        np.tile(inputs, (10, 1)),
        np.tile(targets, (10, 1)),
        batch_size=64,
        epochs=30,
        shuffle=False,
        verbose=0,
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=count)],
    )
    assert counts[0] > 3
    assert 1.8 < np.mean(counts[-10:]) < 2.2, counts


def test_says_what_it_plans_for():
    gate = ReMoEGate(4, k=2)
    assert (gate.k, gate.experts_per_row, gate.max_pairs(3)) == (None, 2, 6)
    assert not gate.is_bounded(training=True)


@pytest.mark.parametrize("balanced", [False, True])
def test_layer(balanced, rng, tmp_path):
    check_layer(
        lambda: ReMoEGate(5, k=2, balanced=balanced, seed=0),
        rng.normal(size=(6, 4)).astype("float32"),
        folder=tmp_path,
        output_shape=(6, 5),
        trainable_weights=2,
        non_trainable_weights=1,
        training_losses=1,
        follows_policy=False,
    )


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"k": 4}, ValueError, "`k` must be between 1 and 3"),
        ({"initial_penalty": 0}, ValueError, "`initial_penalty` must be a"),
        ({"growth": 1.0}, ValueError, "`growth` must be above 1"),
        ({"growth": -2.0}, ValueError, "`growth` must be a finite number"),
        ({"balanced": 1}, TypeError, "`balanced` must be a boolean"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)) as caught:
        ReMoEGate(3, **{"k": 1, **arguments})
    assert "Received: " in str(caught.value)
