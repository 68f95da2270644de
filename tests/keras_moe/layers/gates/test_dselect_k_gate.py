import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import DSelectKGate
from tests.keras_moe.layers.gates.reference import build_with
from tests.keras_moe.layers.gates.reference import check_oracle
from tests.keras_moe.layers.gates.reference import random_weights
from tests.keras_moe.layers.gates.reference import weigh
from tests.keras_moe.layers.layer_test import check_layer


def weights_of(gate):
    """The weights for an input that leaves the biases alone."""
    return weigh(gate, np.zeros((1, 1), "float32"))[0]


def step(t, gamma):
    t = np.clip(t, -gamma / 2, gamma / 2)
    return -2 * t**3 / gamma**3 + 3 * t / (2 * gamma) + 0.5


def reference(x, arrays, num_experts, gamma, unreachable):
    """One example at a time, one selector, one code, one bit."""
    _, k, num_bits = arrays["selector_kernel"].shape
    gates = np.zeros((len(x), num_experts))
    selectors = np.zeros((len(x), k, num_experts))
    for b, row in enumerate(x):
        logits = row @ arrays["weight_kernel"] + arrays["weight_bias"]
        weights = np.exp(logits) / np.exp(logits).sum()
        for j in range(k):
            for code in range(2**num_bits):
                probability = 1.0
                for bit, digit in enumerate(np.binary_repr(code, num_bits)):
                    s = step(
                        row @ arrays["selector_kernel"][:, j, bit]
                        + arrays["selector_bias"][j, bit],
                        gamma,
                    )
                    probability *= s if digit == "1" else 1 - s
                if code < num_experts or unreachable == "fold":
                    selectors[b, j, code % num_experts] += probability
            gates[b] += weights[j] * selectors[b, j]
    return gates, selectors


def static_gate(num_experts, selector_logits, weight_logits, **kwargs):
    gate = DSelectKGate(
        num_experts, k=len(weight_logits), static=True, **kwargs
    )
    arrays = {
        "selector_logits": np.array(selector_logits, "float32"),
        "weight_logits": np.array(weight_logits, "float32"),
    }
    return build_with(gate, arrays)


def test_static_weights_by_hand():
    # The bits of the first selector are 1 and 1/2, those of the other 0, 0.
    gate = static_gate(4, [[9.0, 0.0], [-9.0, -9.0]], np.log([3.0, 1.0]))
    np.testing.assert_allclose(
        weights_of(gate), [1 / 4, 0, 3 / 8, 3 / 8], rtol=1e-6
    )


def test_a_code_without_expert_is_folded_onto_one():
    # Code 5 = 101 belongs to expert 5 mod 3 = 2... of six codes, n = 6; here
    # n = 5: codes 5, 6, 7 go to experts 0, 1, 2.
    for code, expert in [(4, 4), (5, 0), (6, 1), (7, 2)]:
        bits = [9.0 if digit == "1" else -9.0 for digit in f"{code:03b}"]
        gate = static_gate(5, [bits], [0.0])
        np.testing.assert_array_equal(weights_of(gate), np.eye(5)[expert])


def test_a_code_without_expert_has_no_weight_but_a_penalty():
    # The only selector gives 1/2 to code 2 and 1/2 to code 3, n = 3.
    gate = static_gate(
        3, [[9.0, 0.0]], [0.0], unreachable="penalty", unreachable_weight=2.0
    )
    weights, losses = weigh(gate, np.zeros((1, 1)), training=True)
    np.testing.assert_allclose(weights, [0, 0, 0.5])
    np.testing.assert_allclose(losses, [2 * (1 / (0.5 + 1e-6) - 1)], rtol=1e-5)


def test_the_penalty_is_0_where_all_codes_have_experts(rng):
    gate = DSelectKGate(8, k=2, unreachable="penalty")
    weights, losses = weigh(gate, rng.normal(size=(3, 4)), training=True)
    assert losses == []
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("unreachable", ["fold", "penalty"])
@pytest.mark.parametrize("num_experts", [2, 3, 5, 6, 8, 9, 16, 33])
def test_matches_a_reference(num_experts, unreachable, rng):
    gate = DSelectKGate(
        num_experts,
        k=2,
        gamma=2.0,
        entropy_weight=0.5,
        unreachable=unreachable,
        unreachable_weight=0.25,
    )
    x = rng.normal(size=(5, 3)).astype("float32")
    arrays = {"x": x, **random_weights(gate, 3, rng)}
    expected, selectors = reference(x, arrays, num_experts, 2.0, unreachable)
    weights, losses = weigh(build_with(gate, arrays), x, training=True)
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    entropies = -selectors * np.log(selectors + 1e-6)
    expected_losses = [0.5 * entropies.sum(axis=(1, 2)).mean()]
    if unreachable == "penalty" and num_experts & (num_experts - 1):
        excess = 1 / (1e-6 + selectors.sum(axis=2)) - 1
        expected_losses.insert(0, 0.25 * excess.sum(axis=1).mean())
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-3)


def test_published_losses_are_the_weights_times_the_batch_size(rng):
    """The authors' code sums over the batch; 1/Σ - 1 only shifts 1/Σ."""
    batch_size, entropy_weight = 8, 0.1
    gate = DSelectKGate(
        6,
        k=2,
        gamma=2.0,
        entropy_weight=batch_size * entropy_weight,
        unreachable="penalty",
        unreachable_weight=batch_size,
    )
    x = rng.normal(size=(batch_size, 3)).astype("float32")
    arrays = {"x": x, **random_weights(gate, 3, rng)}
    _, selectors = reference(x, arrays, 6, 2.0, "penalty")
    _, losses = weigh(build_with(gate, arrays), x, training=True)
    expected = [
        (1 / (1e-6 + selectors.sum(axis=-1)) - 1).sum(),
        entropy_weight * (-selectors * np.log(selectors + 1e-6)).sum(),
    ]
    np.testing.assert_allclose(losses, expected, rtol=1e-3)


def test_losses_of_a_static_gate_know_no_batch_size():
    gate = static_gate(
        3, [[0.3, 0.1]], [0.0], unreachable="penalty", entropy_weight=1.0
    )
    one, eight = (
        weigh(gate, np.zeros((rows, 1)), training=True)[1] for rows in (1, 8)
    )
    assert len(one) == 2
    np.testing.assert_array_equal(one, eight)


@pytest.mark.parametrize("name", ["n8k2", "n16k2", "n9k4"])
def test_oracle(name, oracle):
    case = oracle(f"dselect_k_{name}")
    gate = DSelectKGate(
        case["gate"].shape[-1],
        k=int(case["k"]),
        gamma=float(case["gamma"]),
        entropy_weight=1.0,
        unreachable="penalty",
        unreachable_weight=0.0,
    )
    *_, loss = check_oracle(gate, case)
    selectors = case["selectors"]
    entropies = -selectors * np.log(selectors + 1e-6)
    np.testing.assert_allclose(
        loss, entropies.sum(axis=(1, 2)).mean(), rtol=1e-4
    )


@pytest.mark.parametrize("name", ["n8k2", "n16k4"])
def test_static_oracle(name, oracle):
    case = oracle(f"dselect_k_static_{name}")
    gate = DSelectKGate(
        case["gate"].shape[-1],
        k=int(case["k"]),
        gamma=float(case["gamma"]),
        static=True,
    )
    check_oracle(gate, case)


def test_weights_have_the_documented_shapes_and_ranges():
    gate = DSelectKGate(9, k=3, gamma=5.0)
    gate.build((None, 40))
    assert gate.selector_kernel.shape == (40, 3, 4)
    assert gate.selector_bias.shape == (3, 4)
    assert gate.weight_kernel.shape == (40, 3)
    assert gate.weight_bias.shape == (3,)
    bounds = {"selector_kernel": 5 / 100, "weight_kernel": 0.05}
    for name, bound in bounds.items():
        largest = np.abs(to_numpy(getattr(gate, name))).max()
        assert 0.9 * bound < largest <= bound


def test_a_static_gate_has_the_documented_shapes():
    gate = DSelectKGate(9, k=3, static=True)
    gate.build((None, 40))
    assert gate.selector_logits.shape == (3, 4)
    assert gate.weight_logits.shape == (3,)


def test_is_sparse_only_once_its_bits_are_certain():
    gate = DSelectKGate(4, k=2)
    assert gate.k == 2
    assert not gate.always_sparse


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "output_shape", "trainable_weights", "training_losses"),
    [
        ({"k": 2}, (6, 5), 4, 0),
        ({"k": 1, "use_bias": False, "entropy_weight": 1.0}, (6, 5), 2, 1),
        ({"k": 2, "unreachable": "penalty"}, (6, 5), 4, 1),
        ({"k": 2, "static": True, "entropy_weight": 0.1}, (5,), 2, 1),
    ],
)
def test_layer(
    arguments, output_shape, trainable_weights, training_losses, rng, tmp_path
):
    check_layer(
        lambda: DSelectKGate(5, **arguments),
        rng.normal(size=(6, 4)).astype("float32"),
        folder=tmp_path,
        output_shape=output_shape,
        trainable_weights=trainable_weights,
        training_losses=training_losses,
        follows_policy=False,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gamma": 0}, r"`gamma` must be a finite number above 0. Received: "),
        (
            {"entropy_weight": -1},
            r"`entropy_weight` must be .*Received: ",
        ),
        (
            {"unreachable_weight": -1},
            r"`unreachable_weight` must .*Received: ",
        ),
        (
            {"unreachable": "drop"},
            r"`unreachable` must be one of 'fold', 'penalty'. "
            r"Received: unreachable='drop'",
        ),
    ],
)
def test_refuses_other_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        DSelectKGate(5, k=2, **arguments)
