import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import TopKGate
from keras_moe.regularizers import load_loss
from tests.gradients import weight_gradient
from tests.keras_moe.layers.gates.reference import build_with
from tests.keras_moe.layers.gates.reference import check_oracle
from tests.keras_moe.layers.gates.reference import random_weights
from tests.keras_moe.layers.gates.reference import weigh
from tests.keras_moe.layers.layer_test import check_layer


def identity_gate(k, **kwargs):
    """A gate whose logits are its inputs."""
    gate = TopKGate(4, k=k, use_bias=False, **kwargs)
    gate.build((None, 4))
    gate.kernel.assign(np.eye(4))
    return gate


def reference(logits, k):
    """Sorts each row, ties by index, and takes the softmax of the first k."""
    weights = np.zeros_like(logits)
    for row, logit in zip(weights, logits, strict=True):
        kept = sorted(range(len(logit)), key=lambda i: (-logit[i], i))[:k]
        exponentials = np.exp(logit[kept] - logit[kept].max())
        row[kept] = exponentials / exponentials.sum()
    return weights


def test_weights_by_hand():
    logits = np.log(np.array([[1.0, 4.0, 3.0, 2.0]], "float32"))
    np.testing.assert_allclose(
        to_numpy(identity_gate(k=2)(logits)), [[0, 4 / 7, 3 / 7, 0]], rtol=1e-6
    )


def test_ties_go_to_the_lower_index_and_zero_logits_count():
    logits = np.array([[0.0, 0.0, 0.0, -1.0], [-1.0, 2.0, 0.0, 0.0]], "float32")
    weights = to_numpy(identity_gate(k=2)(logits))
    assert np.argwhere(weights).tolist() == [[0, 0], [0, 1], [1, 1], [1, 2]]


@pytest.mark.parametrize("k", [1, 3, 7])
def test_matches_a_reference(k, rng):
    gate = TopKGate(7, k=k)
    x = rng.normal(size=(20, 5)).astype("float32")
    arrays = {"x": x, **random_weights(gate, 5, rng)}
    np.testing.assert_allclose(
        weigh(build_with(gate, arrays), x)[0],
        reference(x @ arrays["kernel"] + arrays["bias"], k),
        atol=1e-5,
    )


@pytest.mark.parametrize("name", ["top_k_n16k2", "top_k_n9k4"])
def test_oracle(name, oracle):
    case = oracle(name)
    check_oracle(TopKGate(case["gate"].shape[-1], k=int(case["k"])), case)


def test_a_static_gate_selects_for_all_examples():
    gate = TopKGate(3, k=2, static=True)
    build_with(gate, {"bias": np.log(np.array([1.0, 2.0, 6.0], "float32"))})
    np.testing.assert_allclose(
        to_numpy(gate(np.zeros((5, 2)))), [0, 0.25, 0.75], rtol=1e-6
    )


@pytest.mark.parametrize(("k", "moves"), [(1, False), (2, True)])
def test_gradients_reach_the_kernel_for_k_of_2_only(k, moves, rng):
    gate = TopKGate(4, k=k)
    x = rng.normal(size=(6, 3)).astype("float32")
    cotangent = rng.normal(size=(6, 4)).astype("float32")
    gate.build(x.shape)
    (grad,) = weight_gradient(
        lambda: keras.ops.sum(keras.ops.multiply(gate(x), cotangent)),
        [gate.kernel],
    )
    assert grad.any() == moves


def test_noise_has_the_learned_scale_and_only_training_draws_it():
    gate = identity_gate(k=4, noisy=True, seed=1)
    # softplus(log(e - 1)) = 1, and 0 where the noise kernel is very negative.
    row = [np.log(np.e - 1), np.log(np.e**3 - 1), -1e3, -1e3]
    gate.noise_kernel.assign(np.array([row] * 4))
    inputs = np.full((20_000, 4), 0.25, "float32")
    still = to_numpy(gate(inputs))
    np.testing.assert_allclose(still, 0.25, rtol=1e-6)
    logits = np.log(to_numpy(gate(inputs, training=True)))
    noise = logits - logits[:, 3:]  # The fourth logit has none.
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=0.1)
    np.testing.assert_allclose(noise.std(axis=0), [1, 3, 0, 0], atol=0.05)


@pytest.mark.parametrize(("noisy", "bar"), [(True, "others"), (False, "all")])
def test_the_load_of_noise_is_that_of_its_paper(noisy, bar, monkeypatch, rng):
    monkeypatch.setattr(keras.random, "normal", lambda *_, **__: drawn)
    drawn = keras.ops.convert_to_tensor(rng.normal(size=(8, 4)), "float32")
    gate = identity_gate(k=2, noisy=noisy, load_loss_weight=3.0)
    x = rng.normal(size=(8, 4)).astype("float32")
    gate(x, training=True)
    std = np.log(2.0) if noisy else 1 / 4  # softplus(0)
    noisy_logits = x + np.log(2.0) * to_numpy(drawn) * noisy
    expected = load_loss(x, noisy_logits.astype("float32"), 2, std, bar=bar)
    (loss,) = gate.losses
    assert to_numpy(loss) == pytest.approx(3 * float(expected), rel=1e-4)


@pytest.mark.parametrize(("choices", "factor"), [("all", 2), ("first", 1)])
def test_the_balance_counts_all_choices_or_the_first(choices, factor):
    gate = identity_gate(
        k=2, load_balance_loss_weight=1.0, load_balance_choices=choices
    )
    # Every expert is first once, and second once.
    gate(
        np.array([np.roll([2.0, 1, 0, 0], i) for i in range(4)]), training=True
    )
    (loss,) = gate.losses
    assert to_numpy(loss) == pytest.approx(factor, rel=1e-5)
    assert gate.get_config()["load_balance_choices"] == choices


def test_refuses_other_choices():
    with pytest.raises(ValueError, match="`load_balance_choices` must be one"):
        TopKGate(4, k=2, load_balance_choices="second")


def test_noise_differs_from_call_to_call_and_repeats_with_the_seed():
    x = np.ones((3, 4), "float32")
    first, again = (
        [to_numpy(gate(x, training=True)) for _ in range(2)]
        for gate in (identity_gate(k=3, noisy=True, seed=5) for _ in range(2))
    )
    assert (first[0] != first[1]).any()
    np.testing.assert_array_equal(first, again)


def test_is_always_sparse():
    assert TopKGate(4, k=2).always_sparse
    assert TopKGate(4, k=2).k == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "output_shape", "trainable_weights"),
    [
        ({"k": 2}, (6, 5), 2),
        ({"k": 1, "use_bias": False}, (6, 5), 1),
        ({"k": 3, "noisy": True, "seed": 3}, (6, 5), 3),
        ({"k": 2, "static": True}, (5,), 1),
    ],
)
def test_layer(arguments, output_shape, trainable_weights, rng, tmp_path):
    check_layer(
        lambda: TopKGate(5, **arguments),
        rng.normal(size=(6, 4)).astype("float32"),
        folder=tmp_path,
        output_shape=output_shape,
        trainable_weights=trainable_weights,
        follows_policy=False,
    )


def test_refuses_noise_in_a_static_gate():
    with pytest.raises(
        ValueError,
        match=r"`noisy` must be False for a static gate.*Received: noisy=True",
    ):
        TopKGate(3, k=2, noisy=True, static=True)
