import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import COMETGate
from tests.gradients import gradient
from tests.gradients import weight_gradient
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


def leaves_below(node, num_experts):
    """The heap's leaves below a node, depth first, from left to right."""
    if node >= num_experts - 1:
        return [node]
    return [
        *leaves_below(2 * node + 1, num_experts),
        *leaves_below(2 * node + 2, num_experts),
    ]


def reach_probability(leaf, left):
    """Climbs from a leaf to the root."""
    probability = 1.0
    while leaf > 0:
        parent, is_right = (leaf - 1) // 2, leaf % 2 == 0
        probability *= 1 - left[parent] if is_right else left[parent]
        leaf = parent
    return probability


def reference(x, arrays, gamma):
    """One example at a time, one tree, one leaf."""
    _, k, num_experts = arrays["leaf_kernel"].shape
    gates = np.zeros((len(x), num_experts))
    entropies = np.zeros(len(x))
    for b, row in enumerate(x):
        for j in range(k):
            left = step(
                row @ arrays["split_kernel"][:, j] + arrays["split_bias"][j],
                gamma,
            )
            alpha = row @ arrays["leaf_kernel"][:, j] + arrays["leaf_bias"][j]
            for i, leaf in enumerate(leaves_below(0, num_experts)):
                v = reach_probability(leaf, left)
                gates[b, i] += np.exp(alpha[i]) * v
                entropies[b] -= v * np.log(v + 1e-6)
        gates[b] /= gates[b].sum()
    return gates, entropies.mean()


def certain_gate(num_experts, directions, alphas):
    """A gate with given directions at the splits: 1 is left, 0 is right."""
    k, p = len(directions), 1
    gate = COMETGate(num_experts, k=k)
    arrays = {
        "x": np.zeros((1, p), "float32"),
        "split_kernel": np.zeros((p, k, num_experts - 1)),
        "split_bias": 10 * np.array(directions) - 5,
        "leaf_kernel": np.zeros((p, k, num_experts)),
        "leaf_bias": np.array(alphas),
    }
    return build_with(gate, arrays)


def test_weights_by_hand():
    gate = COMETGate(2, k=1)
    arrays = {
        "x": np.array([[0.25]], "float32"),
        "split_kernel": np.array([[[1.0]]]),
        "split_bias": np.array([[0.0]]),
        "leaf_kernel": np.array([[[0.0, 0.0]]]),
        "leaf_bias": np.log(np.array([[1.0, 3.0]])),
    }
    weights, _ = weigh(build_with(gate, arrays), arrays["x"])
    # h(1/4) = -2/64 + 3/8 + 1/2 = 27/32: g is proportional to [27, 3 · 5].
    np.testing.assert_allclose(weights, [[27 / 42, 15 / 42]], rtol=1e-6)


def test_experts_are_the_leaves_depth_first():
    # n = 5: node 0 splits into 1 and 2, 1 into 3 and 4, 2 into 5 and 6, 3
    # into 7 and 8. Experts 0..4 are the nodes 7, 8, 4, 5, 6.
    paths = [[1, 1, 0, 1], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0] * 4]
    for expert, directions in enumerate(paths):
        gate = certain_gate(5, [directions], [[0.0] * 5])
        np.testing.assert_array_equal(weights_of(gate), np.eye(5)[[expert]])


def test_trees_that_choose_the_same_expert_add_up():
    # Leaves 0, 0 and 2 with weights 1, 2 and 3.
    alphas = np.zeros((3, 3))
    alphas[[0, 1, 2], [0, 0, 2]] = np.log([1.0, 2.0, 3.0])
    gate = certain_gate(3, [[1, 1], [1, 1], [0, 0]], alphas)
    np.testing.assert_allclose(weights_of(gate), [[1 / 2, 0, 1 / 2]], rtol=1e-6)


def test_unreached_experts_have_exactly_no_weight_whatever_their_alpha():
    gate = certain_gate(3, [[1, 1]], [[-80.0, 1e4, 1e6]])
    np.testing.assert_array_equal(weights_of(gate), [[1.0, 0.0, 0.0]])


def test_gradients_are_finite_where_experts_are_not_reached():
    gate = certain_gate(5, [[1, 0, 1, 0], [0, 1, 0, 1]], np.zeros((2, 5)))
    x = np.zeros((1, 1), "float32")

    def projection(x):
        return keras.ops.sum(gate(x)[:, 0])

    grads = weight_gradient(lambda: projection(x), gate.trainable_weights)
    grads.extend(gradient(projection, x))
    assert all(np.isfinite(grad).all() for grad in grads)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("num_experts", [2, 3, 5, 6, 8, 9, 16, 33])
def test_matches_a_reference(num_experts, rng):
    gate = COMETGate(num_experts, k=2, gamma=4.0, entropy_weight=0.5)
    x = rng.normal(size=(5, 3)).astype("float32")
    arrays = {"x": x, **random_weights(gate, 3, rng)}
    expected, mean_entropy = reference(x, arrays, gamma=4.0)
    weights, losses = weigh(build_with(gate, arrays), x, training=True)
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    np.testing.assert_allclose(
        losses, [0.5 * mean_entropy], rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("name", ["n8k2", "n5k2", "n16k2", "n9k4", "n6k1"])
def test_oracle(name, oracle):
    case = oracle(f"comet_{name}")
    gate = COMETGate(
        case["gate"].shape[-1],
        k=int(case["k"]),
        gamma=float(case["gamma"]),
        entropy_weight=float(case["entropy_weight"]),
    )
    *_, loss = check_oracle(gate, case)
    np.testing.assert_allclose(loss, case["entropy_loss"], rtol=1e-4)


def test_weights_have_the_documented_shapes_and_ranges():
    gate = COMETGate(9, k=3, gamma=5.0)
    gate.build((None, 40))
    assert gate.split_kernel.shape == (40, 3, 8)
    assert gate.split_bias.shape == (3, 8)
    assert gate.leaf_kernel.shape == (40, 3, 9)
    assert gate.leaf_bias.shape == (3, 9)
    for name in ("split_kernel", "leaf_kernel"):
        largest = np.abs(to_numpy(getattr(gate, name))).max()
        assert 0.9 * 0.05 < largest <= 0.05


def test_is_sparse_only_once_its_splits_are_certain():
    gate = COMETGate(4, k=2)
    assert gate.k == 2
    assert not gate.always_sparse


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "trainable_weights", "training_losses"),
    [
        ({"k": 2}, 4, 0),
        ({"k": 1, "use_bias": False, "entropy_weight": 1.0}, 2, 1),
        ({"k": 5, "gamma": 0.01, "seed": 3, "leaf_regularizer": "l1"}, 4, 0),
    ],
)
def test_layer(arguments, trainable_weights, training_losses, rng, tmp_path):
    check_layer(
        lambda: COMETGate(5, **arguments),
        rng.normal(size=(6, 4)).astype("float32"),
        folder=tmp_path,
        output_shape=(6, 5),
        trainable_weights=trainable_weights,
        training_losses=training_losses,
        follows_policy=False,
    )


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"gamma": -1.0},
            ValueError,
            r"`gamma` must be .*Received: ",
        ),
        ({"gamma": "1"}, TypeError, r"`gamma` must be a number. Received: "),
        (
            {"entropy_weight": -1},
            ValueError,
            r"`entropy_weight` .*Received",
        ),
    ],
)
def test_refuses_other_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        COMETGate(5, k=2, **arguments)


def test_has_no_static_form():
    with pytest.raises(TypeError, match="static"):
        COMETGate(5, k=2, static=True)
