from itertools import combinations

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import TopKGate
from keras_moe.layers import verify_gate
from keras_moe.regularizers import load_balance_loss
from keras_moe.regularizers import load_loss
from keras_moe.regularizers import router_z_loss
from tests.compiled import compiled
from tests.examples import examples
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


def sigmoid(logits):
    return 1 / (1 + np.exp(-np.float64(logits)))


def normalized(scores, chosen):
    """The chosen scores, divided by their sum."""
    kept = np.where(chosen, scores, 0)
    return kept / kept.sum(axis=-1, keepdims=True)


def chosen_in_groups(row, k, num_groups, groups_per_example):
    """By all sets of groups: the k best experts of the best set."""
    members = np.split(np.arange(len(row)), num_groups)
    counted = min(2, k, len(members[0]))
    best = max(
        combinations(members, groups_per_example),
        key=lambda kept: sum(np.sort(row[g])[-counted:].sum() for g in kept),
    )
    eligible = np.sort(np.concatenate(best))
    order = sorted(eligible, key=lambda i: (-row[i], i))
    return np.isin(np.arange(len(row)), order[:k])


def test_sigmoid_weights_by_hand():
    # Scores of 1/5, 4/5, 3/4 and 1/2.
    logits = np.log(np.array([[1 / 4, 4.0, 3.0, 1.0]], "float32"))
    np.testing.assert_allclose(
        to_numpy(identity_gate(k=2, scores="sigmoid")(logits)),
        [[0, 0.8 / 1.55, 0.75 / 1.55, 0]],
        rtol=1e-6,
    )


@pytest.mark.parametrize("k", [1, 3, 7])
def test_sigmoid_weights_match_a_reference(k, rng):
    gate = TopKGate(7, k=k, scores="sigmoid")
    x = rng.normal(size=(20, 5)).astype("float32")
    arrays = {"x": x, **random_weights(gate, 5, rng)}
    logits = x @ arrays["kernel"] + arrays["bias"]
    np.testing.assert_allclose(
        weigh(build_with(gate, arrays), x)[0],
        normalized(sigmoid(logits), reference(logits, k) > 0),
        atol=1e-5,
    )


@pytest.mark.parametrize("logit", [-1e20, -200.0, 50.0, 1e20])
def test_sigmoids_that_are_rounded_to_0_or_1_still_weigh(logit):
    gate = identity_gate(k=2, scores="sigmoid", seed=0)
    logits = np.array([[-1e22, logit, 2 * logit, logit]], "float32")
    weights = to_numpy(gate(logits))
    # Above, scores are all 1; far below, they differ by all there is.
    best = [0, 0.5, 0.5, 0] if logit > 0 else [0, 0.5, 0, 0.5]
    np.testing.assert_allclose(weights, [best], atol=1e-6)


def test_losses_have_the_normalized_sigmoids_for_probabilities(rng):
    gate = identity_gate(
        k=2, scores="sigmoid", load_balance_loss_weight=1.0, z_loss_weight=1.0
    )
    x = rng.normal(size=(8, 4)).astype("float32")
    _, (balance, z) = weigh(gate, x, training=True)
    scores = sigmoid(x).astype("float32")
    expected = load_balance_loss(
        normalized(scores, scores > 0), reference(x, 2) > 0
    )
    np.testing.assert_allclose(balance, to_numpy(expected), rtol=1e-5)
    np.testing.assert_allclose(z, to_numpy(router_z_loss(x)), rtol=1e-5)


def test_the_losses_of_the_router_do_not_know_the_bias(rng):
    x = rng.normal(size=(8, 4)).astype("float32")
    losses = []
    for options in ({}, {"balance": "bias"}):
        gate = identity_gate(k=2, load_balance_loss_weight=1.0, **options)
        if options:
            gate.selection_bias.assign([5.0, 5.0, 0.0, 0.0])
        losses.append(weigh(gate, x, training=True)[1])
    np.testing.assert_array_equal(*losses)


@pytest.mark.parametrize("scores", ["softmax", "sigmoid"])
def test_route_scale_is_the_sum_of_the_weights(scores, rng):
    x = rng.normal(size=(6, 4)).astype("float32")
    plain = identity_gate(k=2, scores=scores)
    scaled = identity_gate(k=2, scores=scores, route_scale=2.5)
    assert plain.on_simplex
    assert not scaled.on_simplex
    assert not scaled.has_softmax
    np.testing.assert_allclose(
        to_numpy(scaled(x)), 2.5 * to_numpy(plain(x)), rtol=1e-6
    )
    scaled.on_simplex = True
    with pytest.raises(ValueError, match="`on_simplex` promises"):
        verify_gate(scaled, x)


GROUPS = [
    # n, k, num_groups, groups_per_example
    (8, 3, 4, 2),
    (6, 1, 3, 2),
    (4, 2, 4, 3),
    (6, 4, 2, 2),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scores", ["softmax", "sigmoid"])
@pytest.mark.parametrize("balance", [None, "bias"])
@pytest.mark.parametrize(("n", "k", "num_groups", "groups_per_example"), GROUPS)
def test_experts_are_of_the_best_groups(
    n, k, num_groups, groups_per_example, balance, scores
):
    gate = TopKGate(
        n,
        k=k,
        num_groups=num_groups,
        groups_per_example=groups_per_example,
        balance=balance,
        scores=scores,
        use_bias=False,
        kernel_initializer="identity",
    )
    gate.build((None, n))
    weights_of = compiled(lambda logits, _: gate(logits))
    if balance:

        def weights_of(logits, bias):
            gate.selection_bias.assign(bias)
            return to_numpy(gate(logits))

    @examples(25)
    @given(st.integers(0, 2**16))
    def check(seed):
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(6, n)).astype("float32")
        bias = rng.normal(size=n).astype("float32") * bool(balance)
        weights = weights_of(logits, bias)
        all_scores = (
            sigmoid(logits) if scores == "sigmoid" else reference(logits, n)
        )
        chosen = np.apply_along_axis(
            chosen_in_groups,
            1,
            all_scores + bias,
            k,
            num_groups,
            groups_per_example,
        )
        np.testing.assert_allclose(
            weights, normalized(all_scores, chosen), atol=1e-5
        )
        of_groups = (weights > 0).reshape(6, num_groups, -1).any(axis=-1)
        assert (of_groups.sum(axis=-1) <= groups_per_example).all()

    check()


@pytest.mark.eager
def test_a_gate_of_groups_is_what_its_attributes_say(rng):
    gate = TopKGate(6, k=2, scores="sigmoid", num_groups=3, balance="bias")
    verify_gate(gate, rng.normal(size=(40, 4)).astype("float32"))


@pytest.mark.usefixtures("sparse_pays")
@pytest.mark.parametrize("training", [False, True])
def test_sparse_execution_of_groups_computes_the_same(training, rng):
    gate = TopKGate(
        6, k=2, scores="sigmoid", num_groups=3, route_scale=2.5, seed=1
    )
    x = rng.normal(size=(12, 4)).astype("float32")
    experts = MLPExperts(6, [5, 3], seed=1)
    dense, sparse = (
        to_numpy(MoE(gate, experts, execution)(x, training=training))
        for execution in ("dense", "sparse")
    )
    np.testing.assert_allclose(sparse, dense, atol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "output_shape", "trainable_weights"),
    [
        ({"k": 2}, (6, 5), 2),
        ({"k": 1, "use_bias": False}, (6, 5), 1),
        ({"k": 3, "noisy": True, "seed": 3}, (6, 5), 3),
        ({"k": 2, "static": True}, (5,), 1),
        ({"k": 2, "scores": "sigmoid", "route_scale": 2.5}, (6, 5), 2),
        (
            {
                "k": 2,
                "static": True,
                "scores": "sigmoid",
                "num_groups": 5,
                "groups_per_example": 2,
            },
            (5,),
            1,
        ),
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


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"scores": "tanh"},
            ValueError,
            "`scores` must be one of 'softmax', 'sigmoid'. "
            "Received: scores='tanh'",
        ),
        (
            {"route_scale": 0},
            ValueError,
            "`route_scale` must be a finite number above 0. "
            "Received: route_scale=0",
        ),
        (
            {"num_groups": 4},
            ValueError,
            "`num_groups` must divide the 6 experts into equal groups. "
            "Received: num_groups=4",
        ),
        ({"num_groups": 2.0}, TypeError, "`num_groups` must be an integer."),
        (
            {"num_groups": 3, "groups_per_example": 4},
            ValueError,
            "`groups_per_example` must be between 1 and 3. "
            "Received: groups_per_example=4",
        ),
        (
            {"num_groups": 3},
            ValueError,
            "`groups_per_example` must leave at least k=3 experts, of 3 groups "
            "of 2 each. Received: groups_per_example=1",
        ),
    ],
)
def test_refuses_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        TopKGate(6, k=3, **options)


@pytest.mark.once("torch")
def test_reads_a_configuration_from_before_there_were_options():
    gate = TopKGate(4, k=2, noisy=True)
    config = gate.get_config()
    for name in ("scores", "route_scale", "num_groups", "groups_per_example"):
        del config[name]
    assert TopKGate.from_config(config).get_config() == gate.get_config()
