"""Padding: masked positions are routed nowhere and count nowhere."""

import keras
import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.callbacks import RoutingModel
from keras_moe.callbacks import measure_routing
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import TopKGate
from keras_moe.layers import record_routing
from keras_moe.ops import routing_plan
from tests.compiled import compiled
from tests.gradients import gradient
from tests.gradients import weight_gradient
from tests.keras_moe.layers.gates import registry
from tests.keras_moe.layers.gates.registry import build_gate
from tests.keras_moe.layers.gates.registry import make_inputs
from tests.keras_moe.layers.given_gate import GivenGate
from tests.keras_moe.layers.given_gate import balanced

pytestmark = pytest.mark.traced_once("tensorflow")

MASK = np.array([[True, True, False], [False, True, True]])
# Noise would be another for another number of rows.
WITHOUT_NOISE = [
    name
    for name in registry.PER_EXAMPLE
    if not hasattr(registry.GATES[name](), "seed_generator")
]
LOSSES = ["importance", "load", "load_balance", "z"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", registry.PER_EXAMPLE)
def test_masked_positions_have_no_weight(name, rng):
    gate = build_gate(name)
    tokens = make_inputs(gate, rng, leading=(2, 3))
    weights = to_numpy(gate(tokens, mask=MASK))
    assert not weights[~MASK].any()
    np.testing.assert_allclose(
        weights[MASK], to_numpy(gate(tokens[MASK])), rtol=1e-5, atol=1e-6
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [n for n in WITHOUT_NOISE if n != "hash"])
def test_masked_positions_count_in_no_loss(name, rng):
    weights = {f"{loss}_loss_weight": 1.0 for loss in LOSSES}
    gate = build_gate(name, **weights)
    tokens = make_inputs(gate, rng, leading=(2, 3))
    gate(tokens, mask=MASK, training=True)
    masked = [to_numpy(loss) for loss in gate.losses]
    gate(tokens[MASK], training=True)
    alone = [to_numpy(loss) for loss in gate.losses]
    np.testing.assert_allclose(masked, alone, rtol=1e-4, atol=1e-6)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", registry.ON_FEATURES)
def test_every_gate_can_have_every_router_loss(name, loss, rng):
    gate = build_gate(name)
    tokens = make_inputs(gate, rng)
    gate(tokens, training=True)
    without = len(gate.losses)
    gate = build_gate(name, **{f"{loss}_loss_weight": 0.5})
    gate(tokens)
    assert not gate.losses
    gate(tokens, training=True)
    assert len(gate.losses) == without + 1
    assert all(np.isfinite(to_numpy(value)) for value in gate.losses)


@pytest.mark.eager
def test_a_keras_mask_reaches_the_gate_and_goes_on():
    ids = np.array([[3, 1, 0], [0, 2, 0]])
    embedding = keras.layers.Embedding(4, 5, mask_zero=True)
    mixture = MoE(TopKGate(4, k=2), MLPExperts(4, 3))
    with record_routing() as records:
        outputs = mixture(embedding(ids))
    assert not to_numpy(outputs)[ids == 0].any()
    assert to_numpy(outputs)[ids != 0].any()
    np.testing.assert_array_equal(
        to_numpy(records[0].masks[mixture.name]), ids != 0
    )
    pooled = keras.layers.GlobalAveragePooling1D()(outputs)
    np.testing.assert_allclose(
        to_numpy(pooled)[1], to_numpy(outputs)[1, 1], rtol=1e-5
    )


def test_the_mask_of_the_gate_inputs_goes_first(rng):
    tokens = rng.normal(size=(2, 3, 5)).astype("float32")
    mixture = MMoE([TopKGate(4, k=2)] * 2, MLPExperts(4, 3))
    outputs = mixture(
        tokens, tokens, inputs_mask=~MASK, gate_inputs_mask=[MASK, None]
    )
    for output, mask in zip(outputs, [MASK, ~MASK], strict=True):
        assert not to_numpy(output)[~mask].any()
        assert to_numpy(output)[mask].any()


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("sparse_pays")
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("execution", ["dense", "sparse", "auto"])
def test_masked_rows_get_nothing_however_they_are_run(execution, static, rng):
    tokens = rng.normal(size=(2, 3, 5)).astype("float32")
    gate = TopKGate(8, k=2, static=static)
    experts = MLPExperts(8, 3, activation="linear")
    outputs = to_numpy(
        MoE(gate, experts, execution=execution)(tokens, mask=MASK)
    )
    assert not outputs[~MASK].any()
    assert outputs[MASK].any(axis=-1).all()


def test_masked_rows_take_no_slot_of_the_plan():
    weights = balanced(8, 4, 2)
    mask = np.arange(8) < 3
    gate = GivenGate(4, k=2, bounded=True)
    selected = to_numpy(gate(weights, mask=mask)) != 0
    plan = routing_plan(selected, max_pairs=16)
    used = to_numpy(plan.experts) < 4
    assert set(to_numpy(plan.rows)[used]) == {0, 1, 2}


def test_masked_rows_count_in_no_statistic(rng):
    ids = rng.integers(1, 4, size=(6, 3)).astype("int32")
    model = keras.Sequential(
        [
            keras.layers.Embedding(4, 5, mask_zero=True),
            MoE(TopKGate(4, k=2), MLPExperts(4, 3), name="moe"),
        ]
    )
    model(ids)
    padded = np.concatenate([ids, np.zeros_like(ids)], axis=1)
    alone = measure_routing(RoutingModel(model), [ids])["moe"]
    with_padding = measure_routing(RoutingModel(model), [padded])["moe"]
    assert with_padding["experts_per_example"] == 2.0
    for name, value in alone.items():
        np.testing.assert_allclose(with_padding[name], value, rtol=1e-5)


@pytest.mark.parametrize("share", [0.4, 0.9, 1.0])
def test_any_share_of_padding_gives_the_same(share, rng):
    x = rng.normal(size=(40, 5)).astype("float32")
    mask = np.arange(40) >= share * 40
    gate = TopKGate(4, k=1, seed=0)
    experts = MLPExperts(4, 3, seed=1)
    results = []
    for mode in ("dense", "sparse"):
        mixture = MoE(gate, experts, execution=mode)
        mixture.build(x.shape)

        def loss(x, mixture=mixture):
            return ops.sum(ops.square(mixture(x, mask=mask)))

        results.append(
            [
                to_numpy(compiled(lambda x, m=mixture: m(x, mask=mask))(x)),
                *gradient(loss, x),
                *weight_gradient(
                    lambda loss=loss: loss(x), experts.trainable_variables
                ),
            ]
        )
    for dense, sparse in zip(*results, strict=True):
        np.testing.assert_allclose(sparse, dense, atol=1e-5)


@pytest.mark.skipif(
    keras.backend.backend() == "jax", reason="JAX has static shapes"
)
def test_padding_costs_nothing(rng):
    x = rng.normal(size=(4096, 5)).astype("float32")
    computed = []

    def activation(rows):
        computed.append(int(rows.shape[0]))
        return rows

    experts = MLPExperts(4, 3, activation)
    mixture = MoE(TopKGate(4, k=1), experts, execution="sparse")
    mixture.build(x.shape)
    for share in (0.0, 0.6, 0.9, 1.0):
        computed.clear()
        mask = np.arange(4096) >= share * 4096
        mixture(x, mask=mask)
        assert computed == [mask.sum()]
