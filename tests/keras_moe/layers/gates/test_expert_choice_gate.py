import keras
import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy
from scipy.optimize import linprog
from scipy.special import softmax

from keras_moe.layers import ExpertChoiceGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from tests.compiled import compiled
from tests.gradients import weight_gradient
from tests.keras_moe.layers.layer_test import check_layer

N, P = 6, 4


def score_gate(scores, **kwargs):
    """A gate and inputs from which it computes just these scores."""
    gate = ExpertChoiceGate(
        N, use_bias=False, kernel_initializer="identity", **kwargs
    )
    x = np.log(scores).astype("float32")
    gate.build(x.shape)
    return gate, x


def random_scores(rng, rows, spread=1.0):
    return softmax(spread * rng.normal(size=(rows, N)), axis=-1)


def reference(scores, capacity):
    """Every expert's best rows, by sorting its column."""
    weights = np.zeros_like(scores)
    for expert in range(scores.shape[1]):
        best = np.argsort(-scores[:, expert], kind="stable")[:capacity]
        weights[best, expert] = scores[best, expert]
    return weights


@pytest.mark.sampled(4)
@pytest.mark.parametrize("capacity_factor", [0.5, 1.0, 2.0, 2.3, 6.0, 9.0])
@pytest.mark.parametrize("rows", [1, 2, 7, 40])
def test_matches_a_reference(capacity_factor, rows, rng):
    scores = random_scores(rng, rows)
    gate, x = score_gate(scores, capacity_factor=capacity_factor)
    capacity = int(np.clip(round(capacity_factor * rows / N), 1, rows))
    np.testing.assert_allclose(
        to_numpy(gate(x, training=True)),
        reference(scores, capacity),
        atol=1e-6,
    )


def test_ties_go_to_the_earlier_row():
    gate, x = score_gate(np.full((12, N), 1 / N), capacity_factor=1.0)
    chosen = to_numpy(gate(x, training=True)) != 0
    np.testing.assert_array_equal(chosen, np.arange(12)[:, None] < [2] * N)


def test_a_batch_of_unknown_size_has_the_same_capacity(rng):
    gate = ExpertChoiceGate(N, capacity_factor=1.7, inference="batch")
    outputs = gate(inputs := keras.Input((P,)))
    model = keras.Model(inputs, outputs)
    for rows in (1, 5, 33):
        x = rng.normal(size=(rows, P)).astype("float32")
        np.testing.assert_allclose(
            model.predict_on_batch(x), to_numpy(gate(x)), atol=1e-6
        )


def test_all_leading_dimensions_are_one_batch(rng):
    x = rng.normal(size=(3, 5, P)).astype("float32")
    gate = ExpertChoiceGate(N)
    flat = to_numpy(gate(x.reshape(15, P), training=True))
    np.testing.assert_allclose(
        to_numpy(gate(x, training=True)), flat.reshape(3, 5, N), atol=1e-6
    )


def linear_program(scores, capacity, cap):
    """The best that any choice within the caps can reach."""
    rows = scores.shape[0]
    of_expert = np.tile(np.eye(N), rows)
    of_row = np.repeat(np.eye(rows), N, axis=1)
    result = linprog(
        -scores.ravel(),
        A_eq=of_expert,
        b_eq=np.full(N, capacity),
        A_ub=of_row,
        b_ub=np.full(rows, cap),
        bounds=(0, 1),
    )
    assert result.success
    return -result.fun


@pytest.mark.sampled(3)
@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
@pytest.mark.parametrize(
    ("rows", "capacity_factor", "cap"), [(48, 2, 3), (24, 1, 2), (20, 2, 2)]
)
def test_caps_hold_and_the_objective_is_that_of_the_linear_program(
    rows, capacity_factor, cap, spread, rng
):
    scores = random_scores(rng, rows, spread)
    gate, x = score_gate(
        scores, capacity_factor=capacity_factor, max_experts_per_token=cap
    )
    weights = to_numpy(gate(x, training=True))
    chosen = weights != 0
    capacity = min(round(capacity_factor * rows / N), cap * rows // N)
    assert (chosen.sum(axis=0) == capacity).all()
    assert (chosen.sum(axis=1) <= cap).all()
    np.testing.assert_allclose(weights[chosen], scores[chosen], atol=1e-6)
    best = linear_program(scores, capacity, cap)
    assert 0.99 * best <= weights.sum() <= best * (1 + 1e-5)


def test_a_cap_that_does_not_bind_changes_nothing(rng):
    scores = random_scores(rng, 30)
    free, x = score_gate(scores)
    capped, _ = score_gate(scores, max_experts_per_token=N)
    np.testing.assert_array_equal(
        to_numpy(capped(x, training=True)), to_numpy(free(x, training=True))
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cap", [None, 3])
def test_padding_takes_no_capacity(cap, rng):
    scores = random_scores(rng, 20)
    mask = rng.random(20) < 0.6
    gate, x = score_gate(scores, max_experts_per_token=cap)
    weights = to_numpy(gate(x, training=True, mask=mask))
    assert not weights[~mask].any()
    np.testing.assert_allclose(
        weights[mask], to_numpy(gate(x[mask], training=True)), atol=1e-6
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cap", [None, 2])
def test_nothing_but_padding_is_no_trouble(cap, rng):
    gate, x = score_gate(random_scores(rng, 4), max_experts_per_token=cap)
    before = to_numpy(gate.cutoffs)
    assert not to_numpy(gate(x, training=True, mask=np.zeros(4, "bool"))).any()
    assert tuple(gate(x[:0], training=True).shape) == (0, N)
    np.testing.assert_array_equal(to_numpy(gate.cutoffs), before)
    assert int(to_numpy(gate.num_updates)) == 0


def trained_gate(rng, **kwargs):
    """A gate whose cut-offs have seen some batches, and inputs for it."""
    free = ExpertChoiceGate(N, seed=0)
    for _ in range(20):
        x = rng.normal(size=(64, P)).astype("float32")
        free(2 * x, training=True)
    gate = ExpertChoiceGate(N, **kwargs)
    gate.build(x.shape)
    gate.set_weights(free.get_weights())
    return gate, 2 * rng.normal(size=(50, P)).astype("float32")


def test_cutoffs_are_the_mean_of_the_lowest_scores_taken(rng):
    gate = ExpertChoiceGate(N)
    lowest = []
    for rows in (30, 12, 18):
        x = rng.normal(size=(rows, P)).astype("float32")
        weights = to_numpy(gate(x, training=True))
        lowest.append(np.where(weights > 0, weights, 1).min(axis=0))
    np.testing.assert_allclose(
        to_numpy(gate.cutoffs), np.mean(lowest, axis=0), rtol=1e-5
    )
    assert int(to_numpy(gate.num_updates)) == 3


def test_only_training_moves_the_cutoffs(rng):
    for inference in ("threshold", "batch"):
        gate = ExpertChoiceGate(N, inference=inference)
        gate(rng.normal(size=(8, P)).astype("float32"))
        np.testing.assert_allclose(to_numpy(gate.cutoffs), 1 / N)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cap", [None, 2])
def test_a_threshold_knows_no_batch(cap, rng):
    gate, x = trained_gate(rng, max_experts_per_token=cap)
    together = to_numpy(gate(x))
    order = rng.permutation(len(x))
    # To rounding: kernels may add up a row by its place in the batch.
    moved = to_numpy(gate(x[order]))
    np.testing.assert_allclose(moved, together[order], rtol=1e-5)
    np.testing.assert_array_equal(moved > 0, together[order] > 0)
    alone = [to_numpy(gate(row[None]))[0] for row in x]
    np.testing.assert_allclose(alone, together, rtol=1e-5)
    if cap is not None:
        assert (np.count_nonzero(together, axis=1) <= cap).all()


def test_thresholds_choose_about_as_many_as_batches_do(rng):
    gate, _ = trained_gate(rng)
    x = 2 * rng.normal(size=(2000, P)).astype("float32")
    assert abs(np.count_nonzero(to_numpy(gate(x))) / 2000 - 2) < 0.2


def test_batch_inference_is_the_rule_of_training(rng):
    gate, x = trained_gate(rng, inference="batch")
    np.testing.assert_array_equal(
        to_numpy(gate(x)), to_numpy(gate(x, training=True))
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cap", [None, 3])
def test_the_router_has_a_gradient(cap, rng):
    gate = ExpertChoiceGate(N, max_experts_per_token=cap)
    x = rng.normal(size=(12, P)).astype("float32")
    gate.build(x.shape)
    towards = rng.normal(size=(12, N)).astype("float32")
    kernel, bias = weight_gradient(
        lambda: ops.sum(ops.multiply(gate(x, training=True), towards)),
        gate.trainable_variables,
    )
    chosen = to_numpy(gate(x, training=True)) != 0
    s = softmax(x @ to_numpy(ops.stop_gradient(gate.kernel)), axis=-1)
    upstream_grad = np.where(chosen, towards, 0)
    logits = s * (
        upstream_grad - (upstream_grad * s).sum(axis=-1, keepdims=True)
    )
    np.testing.assert_allclose(kernel, x.T @ logits, atol=1e-5)
    np.testing.assert_allclose(bias, logits.sum(axis=0), atol=1e-5)


@pytest.mark.parametrize("cap", [None, 3])
def test_compiled(cap, rng):
    scores = random_scores(rng, 24)
    gate, x = score_gate(scores, max_experts_per_token=cap, inference="batch")
    np.testing.assert_allclose(
        to_numpy(compiled(gate)(x)), to_numpy(gate(x)), atol=1e-6
    )


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("sparse_pays")
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("execution", ["sparse", "auto"])
@pytest.mark.parametrize("cap", [None, 3])
def test_sparse_execution_computes_the_same(cap, execution, training, rng):
    gate, x = trained_gate(rng, max_experts_per_token=cap)
    experts = MLPExperts(N, [5, 3], seed=1)
    mask = rng.random(len(x)) < 0.8
    dense, sparse = (
        to_numpy(
            MoE(gate, experts, execution=mode)(x, training=training, mask=mask)
        )
        for mode in ("dense", execution)
    )
    assert dense.any()
    np.testing.assert_allclose(sparse, dense, atol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cap", [None, 3])
def test_is_a_layer(cap, rng, tmp_path):
    check_layer(
        lambda: ExpertChoiceGate(
            N, capacity_factor=1.5, max_experts_per_token=cap, seed=0
        ),
        rng.normal(size=(12, P)).astype("float32"),
        folder=tmp_path,
        output_shape=(12, N),
        trainable_weights=2,
        non_trainable_weights=2,
        follows_policy=False,
    )


@pytest.mark.once("torch")
def test_refuses_wrong_arguments():
    for arguments, message in [
        ({"capacity_factor": 0}, "capacity_factor"),
        ({"max_experts_per_token": N + 1}, "max_experts_per_token"),
        (
            {"capacity_factor": 2.5, "max_experts_per_token": 2},
            "must not be below `capacity_factor`",
        ),
        ({"inference": "mean"}, "inference"),
    ]:
        with pytest.raises(ValueError, match=message):
            ExpertChoiceGate(N, **arguments)
    with pytest.raises(TypeError, match="synchronized"):
        ExpertChoiceGate(N, synchronized="batch")


def test_one_device_is_its_own_whole(rng):
    x = rng.normal(size=(12, 3)).astype("float32")
    expected, actual = (
        ExpertChoiceGate(N, synchronized=synchronized, seed=0)
        for synchronized in (True, False)
    )
    assert actual.get_config()["synchronized"] is False
    np.testing.assert_array_equal(
        to_numpy(actual(x, training=True)), to_numpy(expected(x, training=True))
    )
    np.testing.assert_array_equal(
        to_numpy(actual.cutoffs), to_numpy(expected.cutoffs)
    )
