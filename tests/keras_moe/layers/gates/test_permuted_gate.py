import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import COMETGate
from keras_moe.layers import HashGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import PermutedGate
from keras_moe.layers import SinkhornPermutation
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from tests.keras_moe.layers.given_gate import GivenGate
from tests.keras_moe.layers.given_gate import balanced
from tests.keras_moe.layers.layer_test import check_layer

N = 8


def frozen(num_experts=N, **kwargs):
    """A permutation after its search: expert i gets entry i + 1."""
    permutation = SinkhornPermutation(num_experts, **kwargs)
    permutation.build((None, num_experts))
    permutation.order.assign(np.roll(np.arange(num_experts), -1))
    permutation.freeze()
    return permutation


@pytest.fixture
def x(rng):
    return rng.normal(size=(6, 4)).astype("float32")


@pytest.mark.parametrize("training", [False, True])
def test_weights_are_those_of_the_gate_in_another_order(training, x):
    gate = PermutedGate(TopKGate(N, k=2), frozen())
    expected = np.roll(to_numpy(gate.gate(x)), -1, axis=-1)
    np.testing.assert_array_equal(
        to_numpy(gate(x, training=training)), expected
    )


def test_in_the_search_training_is_soft_and_evaluation_hard(x):
    gate = PermutedGate(TopKGate(N, k=2))
    gate.build(x.shape)
    gate.permutation.logits.assign(np.full((N, N), 0.01))
    np.testing.assert_allclose(
        to_numpy(gate(x, training=True)), 1 / N, rtol=1e-5
    )
    assert (np.count_nonzero(to_numpy(gate(x)), axis=-1) == 2).all()


def test_it_is_the_gate_inside_to_a_mixture():
    for inner in (
        HashGate(N, num_buckets=9),
        TopKGate(N, k=2, static=True),
        COMETGate(N, k=2),
        SoftmaxGate(N),
    ):
        gate = PermutedGate(inner)
        for name in ("num_experts", "k", "static", "feature_rank"):
            assert getattr(gate, name) == getattr(inner, name)
        assert gate.experts_per_row == inner.experts_per_row
        assert gate.is_bounded(False) == inner.is_bounded(False)
        assert not gate.is_bounded(True)
        assert not gate.always_sparse


def test_a_static_gate_stays_static(x):
    inner = TopKGate(N, k=2, static=True, bias_initializer="random_normal")
    gate = PermutedGate(inner, frozen())
    np.testing.assert_array_equal(
        to_numpy(gate(x)), np.roll(to_numpy(inner(x)), -1)
    )


def test_ids_are_routed(rng):
    ids = rng.integers(50, size=(2, 3)).astype("int32")
    gate = PermutedGate(HashGate(N, num_buckets=50), frozen())
    assert tuple(gate.compute_output_shape(ids.shape)) == (2, 3, N)
    np.testing.assert_array_equal(
        to_numpy(gate(ids)), np.roll(to_numpy(gate.gate(ids)), -1, axis=-1)
    )


@pytest.mark.parametrize("training", [False, True])
def test_padding_gets_no_weight(training, x):
    gate = PermutedGate(COMETGate(N, k=2, entropy_weight=0.1))
    mask = np.array([True, False, True, True, False, True])
    weights = to_numpy(gate(x, training=training, mask=mask))
    np.testing.assert_allclose(weights.sum(axis=-1), mask, rtol=1e-5)


def test_each_gate_has_a_permutation_of_its_own_by_default():
    first, second = (PermutedGate(TopKGate(N, k=2)) for _ in range(2))
    assert first.permutation is not second.permutation


def test_an_own_permutation_is_seeded_by_the_gate():
    first, second = (
        PermutedGate(TopKGate(N, k=2, seed=seed)) for seed in (3, 3)
    )
    for gate in (first, second):
        gate.build((None, 4))
    np.testing.assert_array_equal(
        to_numpy(first.permutation.logits), to_numpy(second.permutation.logits)
    )


def shared_by_two():
    permutation = SinkhornPermutation(4, entropy_weight=0.1, name="shared")
    gates = {
        "watch": PermutedGate(TopKGate(4, k=2), permutation),
        "rating": PermutedGate(
            COMETGate(4, k=2, entropy_weight=1.0), permutation
        ),
    }
    return MMoE(gates, MLPExperts(4, 3)), permutation


@pytest.mark.traced_once("tensorflow")
@pytest.mark.eager
def test_a_shared_permutation_counts_once(x):
    mixture, permutation = shared_by_two()
    mixture(x, training=True)
    # One of the permutation, one of the COMETGate.
    assert len(mixture.losses) == 2
    assert len(permutation.losses) == 1
    assert int(to_numpy(permutation.step)) == 1
    mixture(x, training=True)
    assert len(mixture.losses) == 2
    assert int(to_numpy(permutation.step)) == 2


def test_a_shared_permutation_is_shared_when_loaded(tmp_path, x):
    mixture, permutation = shared_by_two()
    inputs = keras.Input((4,))
    model = keras.Model(inputs, mixture(inputs))
    permutation.order.assign([3, 1, 0, 2])
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    gates = restored.layers[-1].gates
    assert gates["watch"].permutation is gates["rating"].permutation
    assert len(restored.weights) == len(model.weights)
    for task, output in restored(x).items():
        np.testing.assert_allclose(to_numpy(output), to_numpy(model(x)[task]))


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("sparse_pays")
@pytest.mark.parametrize("execution", ["dense", "auto", "sparse"])
@pytest.mark.parametrize("training", [False, True])
def test_after_the_search_all_executions_agree(execution, training, rng):
    weights = balanced(16, N, 2)
    x = rng.normal(size=(16, 3)).astype("float32")
    experts = MLPExperts(N, 4, seed=0)
    gate = PermutedGate(GivenGate(N, k=2), frozen())
    mixture = MoE(gate, experts, execution=execution)
    permuted = np.roll(weights, -1, axis=-1)
    np.testing.assert_allclose(
        to_numpy(mixture(x, weights, training=training)),
        np.einsum("ne,neh->nh", permuted, to_numpy(experts(x))),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.traced_once("tensorflow")
@pytest.mark.usefixtures("sparse_pays")
@pytest.mark.parametrize("bounded", [False, True])
def test_after_the_search_few_experts_are_evaluated(bounded, rng, monkeypatch):
    gate = PermutedGate(GivenGate(N, k=2, bounded=bounded), frozen())
    mixture = MoE(gate, MLPExperts(N, 4, seed=0), execution="auto")
    x = rng.normal(size=(16, 3)).astype("float32")
    weights = balanced(16, N, 2)
    mixture(x, weights)
    runs = []
    run_sparse = mixture._execution._run_sparse
    monkeypatch.setattr(
        mixture._execution,
        "_run_sparse",
        lambda *args: runs.append(1) or run_sparse(*args),
    )
    mixture(x, weights, training=False)
    mixture(x, weights, training=True)
    assert len(runs) == 2


@pytest.mark.usefixtures("sparse_pays")
def test_in_the_search_auto_is_exact(rng):
    gate = PermutedGate(GivenGate(N, k=2, bounded=True))
    experts = MLPExperts(N, 4, seed=0)
    mixture = MoE(gate, experts, execution="auto")
    x = rng.normal(size=(16, 3)).astype("float32")
    weights = balanced(16, N, 2)
    mixture.build(x.shape, weights.shape)
    gate.permutation.logits.assign(rng.uniform(-1e-3, 1e-3, size=(N, N)))
    soft = to_numpy(gate(weights, training=True))
    output = to_numpy(mixture(x, weights, training=True))
    expected = np.einsum("ne,neh->nh", soft, to_numpy(experts(x)))
    np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-5)


def test_it_is_a_proper_layer(tmp_path, x):
    check_layer(
        lambda: PermutedGate(COMETGate(5, k=2, entropy_weight=0.1)),
        x,
        folder=tmp_path,
        output_shape=(6, 5),
        trainable_weights=5,
        non_trainable_weights=4,
        training_losses=2,
        follows_policy=False,
        built_in_graph=False,
    )


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: PermutedGate("top-k"),
            TypeError,
            "`gate` must be a keras_moe Gate. Received: gate='top-k'",
        ),
        (
            lambda: PermutedGate(TopKGate(N, k=2), "shared"),
            TypeError,
            "`permutation` must be a SinkhornPermutation or None. Received: "
            "permutation='shared' of type str",
        ),
        (
            lambda: PermutedGate(TopKGate(N, k=2), SinkhornPermutation(3)),
            ValueError,
            "`permutation` must have as many experts as `gate`, 8. Received: "
            "permutation with num_experts=3",
        ),
    ],
)
def test_refuses_other_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()
