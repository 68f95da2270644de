import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.neuron_importance import deal_neurons
from studies.neuron_importance import neuron_importance

pytestmark = pytest.mark.once("torch")

LOSS = keras.losses.MeanSquaredError()


def perceptron(dropout: float = 0.0) -> keras.Model:
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(4, activation="relu", name="in")(inputs)
    hidden = keras.layers.Dropout(dropout)(hidden)
    return keras.Model(inputs, keras.layers.Dense(2, name="out")(hidden))


def kernels(model: keras.Model) -> list[tuple[keras.Variable, keras.Variable]]:
    return [(model.get_layer("in").kernel, model.get_layer("out").kernel)]


def reference(
    model: keras.Model, x: np.ndarray, y: np.ndarray, batch_size: int
) -> np.ndarray:
    """What backpropagation by hand gives."""
    (v, b), (w, c) = (model.get_layer(n).get_weights() for n in ("in", "out"))
    total = np.zeros(4)
    for start in range(0, len(x), batch_size):
        rows, labels = x[start:][:batch_size], y[start:][:batch_size]
        hidden = np.maximum(rows @ v + b, 0)
        error = 2 * (hidden @ w + c - labels) / labels.size  # (b, 2)
        dw = hidden.T @ error
        dv = rows.T @ ((error @ w.T) * (hidden > 0))
        total += np.abs((v * dv).sum(axis=0) + (w * dw).sum(axis=1))
    return total


@pytest.mark.parametrize("batch_size", [1, 3])
def test_importance_is_that_of_gradients_by_hand(batch_size: int) -> None:
    keras.utils.set_random_seed(0)
    model = perceptron()
    x, y = np.random.randn(6, 3), np.random.randn(6, 2)
    x, y = x.astype("float32"), y.astype("float32")
    model.get_layer("in").bias.assign([0.1, -0.2, 0.3, 0.0])
    before = model.get_weights()
    (found,) = neuron_importance(model, kernels(model), x, y, LOSS, batch_size)
    np.testing.assert_allclose(
        found, reference(model, x, y, batch_size), rtol=1e-4
    )
    for weight, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)


def test_importance_knows_no_dropout() -> None:
    keras.utils.set_random_seed(0)
    model = perceptron(dropout=0.9)
    x, y = np.ones((4, 3), "float32"), np.ones((4, 2), "float32")
    (found,) = neuron_importance(model, kernels(model), x, y, LOSS)
    np.testing.assert_allclose(found, reference(model, x, y, 1), rtol=1e-4)


def test_neurons_are_dealt_in_turn_by_importance() -> None:
    importance = np.array([3.0, 9.0, 1.0, 7.0, 5.0, 8.0, 2.0])
    # From the most important on: 1, 5, 3, 4, 0, 6, 2.
    dealt = deal_neurons(importance, num_experts=2, num_shared=2, units=4)
    np.testing.assert_array_equal(dealt, [[1, 5, 3, 0], [1, 5, 4, 6]])


@given(
    st.integers(1, 5), st.integers(0, 6), st.integers(1, 4), st.integers(0, 99)
)
def test_every_neuron_has_an_expert(
    num_experts: int, num_shared: int, own: int, seed: int
) -> None:
    num_neurons = num_shared + num_experts * own
    importance = np.random.default_rng(seed).random(num_neurons)
    dealt = deal_neurons(importance, num_experts, num_shared, num_shared + own)
    counts = np.bincount(dealt.ravel(), minlength=num_neurons)
    shared = np.argsort(-importance)[:num_shared]
    expected = np.ones(num_neurons)
    expected[shared] = num_experts
    np.testing.assert_array_equal(counts, expected)


def test_too_few_neurons_for_the_experts_are_refused() -> None:
    with pytest.raises(ValueError, match=r"in \[2, 5\] for 9 neurons, 2 of"):
        deal_neurons(np.arange(9.0), num_experts=2, num_shared=2, units=6)
    with pytest.raises(ValueError, match="Received: units=1"):
        deal_neurons(np.arange(9.0), num_experts=2, num_shared=2, units=1)
