import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import MOESARTGate
from keras_moe.regularizers import load_balance_loss
from tests.gradients import weight_gradient
from tests.keras_moe.layers.gates.reference import build_with
from tests.keras_moe.layers.gates.reference import random_weights
from tests.keras_moe.layers.gates.reference import weigh
from tests.keras_moe.layers.layer_test import check_layer

G = np.array([0.5, 0.25, 0.15, 0.1], "float32")


def identity_gate(k, **kwargs):
    """A gate whose logits, at temperature 1, are its inputs."""
    gate = MOESARTGate(4, k=k, use_bias=False, **kwargs)
    gate.build((None, 4))
    gate.kernel.assign(np.eye(4))
    return gate


def drawn_weights(rows=2_000, **kwargs):
    """What a gate with g = G gives each of many rows while training."""
    logits = np.tile(np.log(G), (rows, 1))
    return weigh(identity_gate(seed=1, **kwargs), logits, training=True)[0]


def test_inference_weighs_the_top_k_alike():
    logits = np.log(np.array([[1.0, 4.0, 3.0, 2.0]], "float32"))
    for k, expected in ((2, [0, 1 / 2, 1 / 2, 0]), (3, [0, *[1 / 3] * 3])):
        weights = to_numpy(identity_gate(k=k)(logits))
        np.testing.assert_array_equal(weights, np.float32([expected]))


def test_inference_gives_ties_to_the_lower_index():
    weights = to_numpy(identity_gate(k=2)(np.zeros((1, 4), "float32")))
    np.testing.assert_array_equal(weights, [[0.5, 0.5, 0, 0]])


def test_inference_matches_a_reference(rng):
    gate = MOESARTGate(7, k=3)
    x = rng.normal(size=(20, 5)).astype("float32")
    arrays = {"x": x, **random_weights(gate, 5, rng)}
    logits = x @ arrays["kernel"] + arrays["bias"]
    bar = np.sort(logits, axis=-1)[:, -3:-2]
    np.testing.assert_allclose(
        weigh(build_with(gate, arrays), x)[0], (logits >= bar) / 3, rtol=1e-6
    )


@pytest.mark.parametrize("k", [2, 3, 4])
def test_training_draws_exactly_k_without_replacement(k):
    assert (np.count_nonzero(drawn_weights(k=k), axis=-1) == k).all()


def test_training_draws_one_to_k_with_replacement():
    counts = np.count_nonzero(drawn_weights(k=3, replacement=True), axis=-1)
    assert set(counts) == {1, 2, 3}


def test_the_randomized_adjustment_is_equation_3():
    weights = drawn_weights(k=2)
    # The pair (z, i) has weights in the ratio of g_z to 1.
    z = np.where(weights > 0, weights, 1).argmin(axis=-1)
    np.testing.assert_allclose(
        np.where(weights > 0, weights, 1).min(axis=-1),
        G[z] / (1 + G[z]),
        rtol=1e-5,
    )
    # Expert 0 is z in half of its pairs; four standard errors of a share.
    share = (z == 0).sum() / np.count_nonzero(weights[:, 0])
    assert share == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(1_000))


def test_without_adjustment_the_weights_are_those_of_the_drawn_softmax():
    weights = drawn_weights(k=2, adjustment="none")
    expected = np.where(weights > 0, G, 0)
    np.testing.assert_allclose(
        weights, expected / expected.sum(axis=-1, keepdims=True), rtol=1e-5
    )


def test_unbiased_weights_are_counts_whose_mean_is_the_softmax():
    rows = 10_000
    weights = drawn_weights(rows, k=4, replacement=True, adjustment="unbiased")
    np.testing.assert_allclose(4 * weights, np.round(4 * weights), rtol=1e-5)
    # Four standard errors of a mean of rows times k draws.
    tolerance = 4 * np.sqrt(G * (1 - G) / (4 * rows))
    assert (abs(weights.mean(axis=0) - G) < tolerance).all()


def test_a_low_temperature_draws_the_top_k():
    weights = drawn_weights(k=2, temperature=0.02)
    assert (weights[:, :2] > 0).all()


@pytest.mark.parametrize("replacement", [False, True])
def test_draws_differ_from_call_to_call_and_repeat_with_the_seed(replacement):
    x = np.zeros((8, 4), "float32")
    first, again = (
        [to_numpy(gate(x, training=True)) for _ in range(2)]
        for gate in (
            identity_gate(k=2, replacement=replacement, seed=5)
            for _ in range(2)
        )
    )
    assert (first[0] != first[1]).any()
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("adjustment", ["randomized", "none"])
@pytest.mark.parametrize("replacement", [False, True])
def test_gradients_reach_the_kernel(adjustment, replacement, rng):
    gate = MOESARTGate(
        4, k=2, replacement=replacement, adjustment=adjustment, seed=1
    )
    x = rng.normal(size=(6, 3)).astype("float32")
    gate.build(x.shape)
    (grad,) = weight_gradient(
        lambda: keras.ops.sum(keras.ops.square(gate(x, training=True))),
        [gate.kernel],
    )
    assert grad.any()


def test_the_trimmed_lasso_leaves_out_the_k_largest():
    gate = identity_gate(k=2, trimmed_lasso_weight=2.0)
    _, (loss,) = weigh(gate, np.log(G)[None], training=True)
    np.testing.assert_allclose(loss, 2.0 * (0.15 + 0.1), rtol=1e-5)


def test_the_trimmed_lasso_trains_even_an_unbiased_gate(rng):
    gate = MOESARTGate(
        4, k=2, adjustment="unbiased", trimmed_lasso_weight=1.0, seed=1
    )
    x = rng.normal(size=(6, 3)).astype("float32")
    gate.build(x.shape)
    (grad,) = weight_gradient(
        lambda: keras.ops.sum(gate(x, training=True)[..., 0]), [gate.kernel]
    )
    assert grad.any()


def test_auxiliary_losses_are_those_of_the_dense_softmax():
    gate = identity_gate(k=2, load_balance_loss_weight=0.5)
    _, (loss,) = weigh(gate, np.log(G)[None], training=True)
    expected = load_balance_loss(G[None], [[True, True, False, False]])
    np.testing.assert_allclose(loss, 0.5 * to_numpy(expected), rtol=1e-5)


def test_padding_counts_in_no_loss_and_changes_no_other_weights(rng):
    x = rng.normal(size=(3, 4)).astype("float32")
    mask = np.array([True, False, True])
    results = []
    for array in (x, x * [[1], [9], [1]]):
        gate = identity_gate(k=2, trimmed_lasso_weight=1.0, seed=1)
        weights = to_numpy(gate(array, training=True, mask=mask))
        assert not weights[1].any()
        results.append([weights, to_numpy(gate.losses[0])])
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)


def test_is_always_sparse():
    gate = MOESARTGate(4, k=2)
    assert gate.always_sparse
    assert gate.k == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "trainable_weights", "losses"),
    [
        ({"k": 2, "trimmed_lasso_weight": 0.1, "seed": 3}, 2, 1),
        (
            {
                "k": 3,
                "replacement": True,
                "adjustment": "unbiased",
                "temperature": 2.0,
                "use_bias": False,
            },
            1,
            0,
        ),
    ],
)
def test_layer(arguments, trainable_weights, losses, rng, tmp_path):
    check_layer(
        lambda: MOESARTGate(5, **arguments),
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
        ("k", 1, ValueError),
        ("k", 5, ValueError),
        ("k", 2.0, TypeError),
        ("temperature", 0, ValueError),
        ("trimmed_lasso_weight", -1, ValueError),
        ("replacement", 1, TypeError),
        ("adjustment", "biased", ValueError),
    ],
)
def test_refuses(argument, value, error):
    with pytest.raises(
        error, match=rf"`{argument}` must be .*Received: {argument}={value!r}"
    ):
        MOESARTGate(4, **{"k": 2, argument: value})
