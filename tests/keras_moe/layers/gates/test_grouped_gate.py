import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import COMETGate
from keras_moe.layers import ConstantGate
from keras_moe.layers import GroupedGate
from keras_moe.layers import HashGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import PermutedGate
from keras_moe.layers import SinkhornPermutation
from keras_moe.layers import TopKGate
from tests.examples import examples
from tests.keras_moe.layers.given_gate import GivenGate
from tests.keras_moe.layers.layer_test import check_layer


def reference(weights, groups, fallback):
    """The definition, row by row."""
    outputs = np.zeros((len(weights), len(groups)))
    for row, entries in enumerate(weights):
        for group, members in enumerate(groups):
            outputs[row, group] = entries[members].sum()
        if outputs[row].sum() == 0:
            outputs[row, fallback] = 1
        outputs[row] *= entries.sum() / outputs[row].sum()
    return outputs


def test_weights_of_a_group_add_up():
    gate = GroupedGate(GivenGate(5), [[0, 3], [1, 2, 4]])
    weights = gate(np.array([[0.5, 0.0, 0.125, 0.375, 0.0]], "float32"))
    np.testing.assert_array_equal(to_numpy(weights), [[0.875, 0.125]])


def test_others_share_the_weight_of_an_expert_without_a_group():
    gate = GroupedGate(GivenGate(4), [[2], [0]], fallback=1)
    rows = [[0.25, 0.5, 0.25, 0.0], [0.0, 0.75, 0.0, 0.25], [1, 0, 0, 0]]
    np.testing.assert_array_equal(
        to_numpy(gate(np.array(rows, "float32"))),
        [[0.5, 0.5], [0.0, 1.0], [0.0, 1.0]],
    )


@examples(30)
@given(seed=st.integers(0, 1000), fallback=st.integers(0, 2))
def test_weights_are_those_of_the_definition(seed, fallback):
    rng = np.random.default_rng(seed)
    weights = rng.gamma(0.2, size=(6, 7)) * rng.integers(2, size=(6, 7))
    groups = np.array_split(rng.permutation(7)[: rng.integers(3, 8)], 3)
    gate = GroupedGate(GivenGate(7), [g.tolist() for g in groups], fallback)
    np.testing.assert_allclose(
        to_numpy(gate(weights.astype("float32"))),
        reference(weights, groups, fallback),
        rtol=1e-5,
        atol=1e-7,
    )


@pytest.mark.parametrize("groups", [[[0, 1], [2, 3]], [[0], [3]]])
def test_rows_with_nan_stay_nan(groups):
    gate = GroupedGate(GivenGate(4), groups)
    rows = np.full((2, 4), np.nan, "float32")
    rows[1] = 0.25
    weights = to_numpy(gate(rows))
    assert np.isnan(weights[0]).all()
    np.testing.assert_array_equal(weights[1], [0.5, 0.5])


def test_it_is_the_gate_inside_to_a_mixture():
    for inner in (
        HashGate(8, num_buckets=9),
        TopKGate(8, k=5, static=True),
        COMETGate(8, k=2),
    ):
        gate = GroupedGate(inner, [[0, 1], [2, 3, 4], [7]])
        for name in ("static", "feature_rank", "always_sparse", "on_simplex"):
            assert getattr(gate, name) == getattr(inner, name)
        assert gate.num_experts == 3
        assert gate.k == min(inner.k, 3)
        assert gate.experts_per_row == gate.k
        assert gate.is_bounded(False) == inner.is_bounded(False)


@pytest.mark.parametrize("groups", [[[0, 2], [1, 3], [4]], [[0], [4]]])
def test_contract_of_a_layer(groups, tmp_path, rng):
    check_layer(
        lambda: GroupedGate(
            COMETGate(5, k=2, entropy_weight=0.1, seed=1), groups
        ),
        rng.normal(size=(6, 4)).astype("float32"),
        folder=tmp_path,
        output_shape=(6, len(groups)),
        trainable_weights=4,
        training_losses=1,
        follows_policy=False,
    )


def test_a_permutation_stays_shared(rng):
    shared = SinkhornPermutation(4)
    gates = [
        GroupedGate(PermutedGate(TopKGate(4, k=2), shared), [[0, 1], [2, 3]])
        for _ in range(2)
    ]
    mixture = MMoE(gates, MLPExperts(2, 3))
    copy = MMoE.from_config(mixture.get_config())
    first, second = copy.gates
    assert first.gate.permutation is second.gate.permutation


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"gate": 3}, TypeError, "`gate` must be a keras_moe Gate"),
        ({"groups": [[0]]}, ValueError, "`groups` must be at least two"),
        ({"groups": [[0], []]}, ValueError, "must not be empty, nor share"),
        ({"groups": [[0], [1, 0]]}, ValueError, "must not be empty, nor share"),
        ({"groups": [[0], [4]]}, ValueError, "between 0 and 3"),
        ({"groups": [[0], [0.5]]}, TypeError, "`groups` must be an integer"),
        ({"fallback": 2}, ValueError, "`fallback` must be between 0 and 1"),
        ({"z_loss_weight": 1.0}, ValueError, "belongs to the gate inside"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    defaults = {"gate": TopKGate(4, k=2), "groups": [[0, 1], [2]]}
    with pytest.raises(error, match=message):
        GroupedGate(**{**defaults, **arguments})


def test_a_constant_gate_keeps_its_sum():
    gate = GroupedGate(ConstantGate([0.0, 1.0, 1.0]), [[0], [1]])
    weights = to_numpy(gate(keras.ops.zeros((1, 2))))
    np.testing.assert_array_equal(weights, [0.0, 2.0])
