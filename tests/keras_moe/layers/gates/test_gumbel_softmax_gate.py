import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy
from scipy import stats

from keras_moe.layers import GumbelSoftmaxGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from tests.gradients import weight_gradient
from tests.keras_moe.layers.gates.reference import build_with
from tests.keras_moe.layers.gates.reference import weigh
from tests.keras_moe.layers.layer_test import check_layer

X = np.zeros((2, 3), "float32")
# softmax(α) = [1, 2, 3, 4] / 10 and θ = [0.9, 0.5, 0.2, 0.6].
ALPHA = np.log(np.array([1, 2, 3, 4], "float32"))
THETA = np.array([0.9, 0.5, 0.2, 0.6])
BETA = np.log(THETA / (1 - THETA)).astype("float32")


def known_gate(**kwargs):
    return build_with(
        GumbelSoftmaxGate(4, **kwargs),
        {"weight_logits": ALPHA, "selector_logits": BETA, "num_updates": 0},
    )


def test_inference_keeps_the_experts_that_are_rather_on():
    np.testing.assert_allclose(
        to_numpy(known_gate()(X)), [0.1, 0.2, 0.0, 0.4], rtol=1e-6
    )


def test_the_expected_number_of_experts_is_the_sum_of_the_probabilities():
    expected = to_numpy(known_gate().expected_experts())
    np.testing.assert_allclose(expected, 2.2, rtol=1e-6)


def draw_samples(num_updates=0, **kwargs):
    """10,000 samples of U for each of the probabilities THETA."""
    n = 40_000
    gate = GumbelSoftmaxGate(n, seed=1, **kwargs)
    arrays = {
        "weight_logits": np.zeros(n),
        "selector_logits": np.tile(BETA, 10_000),
        "num_updates": num_updates,
    }
    weights = to_numpy(build_with(gate, arrays)(X, training=True))
    return (n * weights).reshape(-1, len(BETA))


def assert_has_share(outcomes, share):
    """Whether a mean is within four of its standard errors."""
    tolerance = 4 * np.sqrt(share * (1 - share) / len(outcomes))
    assert (abs(outcomes.mean(axis=0) - share) < tolerance).all()


@pytest.mark.parametrize(
    ("temperature", "arguments"),
    [
        (1.0, {"temperature": 1.0}),
        (0.25, {"temperature": 0.25}),
        (5.0, {}),
        # Three decays, the fourth not yet.
        (5 * 0.965**3, {"num_updates": 1999}),
    ],
)
def test_training_draws_binary_gumbel_softmax_samples(temperature, arguments):
    samples = draw_samples(**arguments)
    for logit in (-2.0, 0.0, 2.0):
        u = 1 / (1 + np.exp(-logit / temperature))
        # The difference of two Gumbel variables is logistic.
        assert_has_share(samples < u, stats.logistic.cdf(logit - BETA))


def test_cold_samples_are_on_with_their_probability():
    samples = draw_samples(temperature=1e-3)
    assert ((samples < 0.01) | (samples > 0.99)).mean() > 0.98
    assert_has_share(samples > 0.5, THETA)


def published_temperatures(num_steps):
    """The temperature of each training step, as AdaShare's code has them."""
    temperatures, temperature = [], 5.0
    for step in range(1, num_steps + 1):
        temperatures.append(temperature)
        if step % (400 + 100) == 0:  # A turn of the weights and the policy.
            temperature *= 0.965
    return np.array(temperatures)


def test_the_temperature_is_annealed_as_published():
    expected = published_temperatures(20_000)
    gate = known_gate()
    for step in [*range(497, 503), 999, 1000, 12_345, 19_999]:
        gate.num_updates.assign(step)
        temperature = to_numpy(gate.current_temperature())
        np.testing.assert_allclose(temperature, expected[step], rtol=1e-5)


def test_the_schedule_can_be_another():
    gate = known_gate(
        initial_temperature=2.0, temperature_decay=0.5, decay_steps=3
    )
    temperatures = []
    for _ in range(7):
        temperatures.append(float(to_numpy(gate.current_temperature())))
        gate(X, training=True)
    assert temperatures == [2, 2, 2, 1, 1, 1, 0.5]


def test_inference_is_no_step():
    gate = known_gate(temperature_decay=0.5, decay_steps=1)
    gate(X)
    gate(X, training=False)
    assert float(to_numpy(gate.current_temperature())) == 5


def test_a_given_temperature_stays():
    gate = known_gate(temperature=0.5, decay_steps=1)
    for _ in range(3):
        assert float(to_numpy(gate.current_temperature())) == 0.5
        gate(X, training=True)
    assert not hasattr(gate, "num_updates")


def test_annealing_ends_above_zero():
    gate = known_gate(sparsity_weight=1.0)
    gate.num_updates.assign(2_000_000_000)
    temperature = to_numpy(gate.current_temperature())
    np.testing.assert_allclose(temperature, 1e-5, rtol=1e-6)
    grads = weight_gradient(
        lambda: keras.ops.sum(keras.ops.square(gate(X, training=True))),
        gate.trainable_weights,
    )
    assert all(np.isfinite(grad).all() for grad in grads)


def small_model():
    gate = GumbelSoftmaxGate(4, decay_steps=2)
    model = keras.Sequential([MoE(gate, MLPExperts(4, 2))])
    model.compile("sgd", "mse")
    return model


def train(model, epochs):
    arrays = np.ones((12, 3), "float32"), np.ones((12, 2), "float32")
    model.fit(*arrays, batch_size=4, epochs=epochs, verbose=0)


def gate_of(model):
    return model.layers[0].gate


def test_compiled_training_counts_its_steps_and_goes_on_from_a_file(tmp_path):
    model = small_model()
    train(model, epochs=2)
    assert int(to_numpy(gate_of(model).num_updates)) == 6
    model.save(tmp_path / "model.keras")
    model = keras.saving.load_model(tmp_path / "model.keras")
    gate = gate_of(model)
    np.testing.assert_allclose(
        to_numpy(gate.current_temperature()), 5 * 0.965**3, rtol=1e-6
    )
    train(model, epochs=1)
    assert int(to_numpy(gate.num_updates)) == 9


def test_the_sparsity_penalty():
    _, (loss,) = weigh(known_gate(sparsity_weight=0.5), X, training=True)
    np.testing.assert_allclose(loss, 0.5 * np.log(THETA).sum(), rtol=1e-5)


def test_the_penalty_turns_experts_off():
    gate = GumbelSoftmaxGate(4, sparsity_weight=1.0)
    gate.build(X.shape)

    def penalty():
        return 0.0 * keras.ops.sum(gate(X, training=True))

    (grad,) = weight_gradient(penalty, [gate.selector_logits])
    np.testing.assert_allclose(grad, 0.5, rtol=1e-5)  # 1 - θ.


def test_gradients_reach_both_weights():
    gate = known_gate()
    grads = weight_gradient(
        lambda: keras.ops.sum(keras.ops.square(gate(X, training=True))),
        gate.trainable_weights,
    )
    assert len(grads) == 2
    assert all(grad.all() for grad in grads)


def test_is_finite_for_large_logits():
    arrays = {
        "weight_logits": np.array([1e4, 0.0, -1e4]),
        "selector_logits": np.array([-1e4, 0.0, 1e4]),
        "num_updates": 0,
    }
    gate = build_with(GumbelSoftmaxGate(3, sparsity_weight=1.0), arrays)
    weights, losses = weigh(gate, X, training=True)
    assert np.isfinite(weights).all()
    assert np.isfinite(losses).all()
    grads = weight_gradient(
        lambda: keras.ops.sum(keras.ops.square(gate(X, training=True))),
        gate.trainable_weights,
    )
    assert all(np.isfinite(grad).all() for grad in grads)


def test_is_static_and_dense():
    gate = GumbelSoftmaxGate(4)
    assert gate.static
    assert gate.k is None
    assert not gate.always_sparse


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "losses", "counters"),
    [
        ({}, 0, 1),
        (
            {
                "temperature": 0.5,
                "sparsity_weight": 0.1,
                "load_balance_loss_weight": 0.1,
                "seed": 3,
            },
            2,
            0,
        ),
    ],
)
def test_layer(arguments, losses, counters, rng, tmp_path):
    check_layer(
        lambda: GumbelSoftmaxGate(5, **arguments),
        rng.normal(size=(6, 4)).astype("float32"),
        folder=tmp_path,
        output_shape=(5,),
        trainable_weights=2,
        non_trainable_weights=counters,
        training_losses=losses,
        follows_policy=False,
    )


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("temperature", 0),
        ("sparsity_weight", -1),
        ("initial_temperature", 0),
        ("temperature_decay", 0),
        ("temperature_decay", 1.1),
        ("decay_steps", 0),
    ],
)
def test_refuses(argument, value):
    with pytest.raises(
        ValueError,
        match=rf"`{argument}` must be a.*Received: {argument}={value}",
    ):
        GumbelSoftmaxGate(3, **{argument: value})
