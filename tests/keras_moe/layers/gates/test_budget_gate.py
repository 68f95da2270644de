import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import BudgetGate
from keras_moe.layers import HashGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import PermutedGate
from keras_moe.layers import ReMoEGate
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from keras_moe.layers.execution import Execution
from tests.examples import examples
from tests.gradients import weight_gradient
from tests.keras_moe.layers.gates.reference import weigh
from tests.keras_moe.layers.given_gate import GivenGate
from tests.keras_moe.layers.layer_test import check_layer

# A hard example and an easy one.
WEIGHTS = np.array([[0.5, 0.3, 0.2], [0.04, 0.9, 0.06]], "float32")
# Of budgets 1, 1.25, ..., 3.
THRESHOLDS = [0.5, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05]
ONE_EACH = [[1, 0, 0], [0, 1, 0]]
N = 8


def given_gate(**arguments):
    gate = BudgetGate(GivenGate(3), **{"k": 2, **arguments})
    gate.build((None, 3))
    gate.thresholds.assign(THRESHOLDS)
    return gate


def draw_weights(rng, rows=2000, n=N):
    logits = 2 * rng.normal(size=(rows, n))
    weights = np.exp(logits)
    return (weights / weights.sum(axis=1, keepdims=True)).astype("float32")


def counts_of(weights):
    return np.count_nonzero(to_numpy(weights), axis=-1)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (1, ONE_EACH),
        # The threshold is 0.325, halfway between those of 1.5 and 1.75.
        (1.625, ONE_EACH),
        (2, [[0.625, 0.375, 0], [0, 1, 0]]),
        (2.5, [[0.5, 0.3, 0.2], [0, 1, 0]]),
        (3, WEIGHTS),
        (None, [[0.625, 0.375, 0], [0, 1, 0]]),
    ],
)
def test_weights_by_hand(budget, expected):
    weights = to_numpy(given_gate()(WEIGHTS, budget=budget))
    np.testing.assert_allclose(weights, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("mass", "expected"),
    [
        (0.5, ONE_EACH),
        (0.7, [[0.625, 0.375, 0], [0, 1, 0]]),
        (0.95, [[0.5, 0.3, 0.2], [0, 0.9375, 0.0625]]),
        (1.0, WEIGHTS),
    ],
)
def test_the_smallest_set_of_a_mass_by_hand(mass, expected):
    gate = BudgetGate(GivenGate(3), mass=mass)
    np.testing.assert_allclose(to_numpy(gate(WEIGHTS)), expected, rtol=1e-6)


# XLA takes what is too small for float32's full precision for 0.
sizes = st.floats(0, 1, width=32, allow_subnormal=False)


@examples(30)
@given(
    weights=hnp.arrays("float32", (4, 6), elements=sizes),
    mass=st.floats(0.01, 1),
)
def test_a_mass_matches_its_definition(weights, mass):
    sums = weights.sum(axis=1, keepdims=True)
    shares = weights / np.where(sums > 0, sums, 1)
    kept = to_numpy(BudgetGate(GivenGate(6), mass=mass)(weights)) > 0
    for row, share in zip(kept, shares, strict=True):
        ordered = np.sort(share)[::-1]
        if not share.any():
            assert not row.any()
            continue
        # No smaller set has the mass, up to rounding; this one has it.
        assert share[row].sum() >= mass - 1e-5
        assert ordered[: row.sum() - 1].sum() < mass + 1e-5


def quantiles(shares):
    """The thresholds of one batch, by their definition."""
    rows, n = shares.shape
    others = np.sort(shares, axis=1)[:, :-1].ravel()
    ordered = np.sort(others)[::-1]
    budgets = np.arange(1, n + 0.1, 0.25)
    places = np.round((budgets - 1) * rows).astype(int)
    return ordered[np.maximum(places - 1, 0)]


def test_training_keeps_a_running_mean_of_quantiles(rng):
    gate = BudgetGate(GivenGate(N), k=2)
    first, second = draw_weights(rng, 40), draw_weights(rng, 40)
    # Neither padding nor an example with NaN counts, nor does a sum.
    rows = np.concatenate([3 * second, draw_weights(rng, 2)])
    rows[-1] = np.nan
    gate(first, training=True)
    np.testing.assert_allclose(
        to_numpy(gate.thresholds), quantiles(first), rtol=1e-5
    )
    gate(rows, training=True, mask=np.arange(42) != 40)
    np.testing.assert_allclose(
        to_numpy(gate.thresholds),
        (quantiles(first) + quantiles(second)) / 2,
        rtol=1e-4,
    )
    for _ in range(30):
        gate(second, training=True)
    previous = to_numpy(gate.thresholds)
    gate(first, training=True)
    np.testing.assert_allclose(
        to_numpy(gate.thresholds),
        0.95 * previous + 0.05 * quantiles(first),
        rtol=1e-4,
    )


def test_neither_inference_nor_empty_batches_change_thresholds(rng):
    gate = given_gate()
    for training, batch in (
        (False, WEIGHTS),
        (True, WEIGHTS[:0]),
        (True, np.full((2, 3), np.nan, "float32")),
    ):
        gate(batch, training=training)
        np.testing.assert_allclose(to_numpy(gate.thresholds), THRESHOLDS)
    assert int(gate.num_updates) == 0


def test_other_examples_have_the_budget_on_average(rng):
    gate = BudgetGate(GivenGate(N), k=2)
    for _ in range(3):
        gate(draw_weights(rng), training=True)
    rows = draw_weights(rng)
    for budget in (1, 1.5, 3.3, 7.9, 8):
        mean = counts_of(gate(rows, budget=budget)).mean()
        assert mean == pytest.approx(budget, rel=0.03)
    assert counts_of(gate(rows)).mean() == pytest.approx(2, rel=0.03)


def test_each_example_of_a_training_batch_draws_its_budget(rng):
    gate = BudgetGate(GivenGate(N), k=2, train_budgets=(1, 8))
    weights = draw_weights(rng, 4000)
    counts = counts_of(gate(weights, training=True))
    # (b - a) / log(b / a), the mean of what is uniform in its logarithm.
    assert counts.mean() == pytest.approx(7 / np.log(8), rel=0.05)
    assert counts.min() == 1
    assert counts.max() == 8
    another = counts_of(gate(weights, training=True))
    assert (counts != another).mean() > 0.5
    narrow = BudgetGate(GivenGate(N), k=2, train_budgets=(2, 3))
    counts = counts_of(narrow(weights, training=True))
    assert 2 < counts.mean() < 3
    single = BudgetGate(GivenGate(N), k=2, train_budgets=(2, 2))
    counts = counts_of(single(weights[:1000], training=True))
    assert counts.mean() == pytest.approx(2, rel=0.001)


def test_a_budget_in_training_replaces_the_draws(rng):
    gate = BudgetGate(GivenGate(N), k=2)
    weights = gate(draw_weights(rng, 1000), training=True, budget=3)
    assert counts_of(weights).mean() == pytest.approx(3, rel=0.001)


@pytest.mark.traced_once("jax")
def test_thresholds_of_large_batches_are_those_of_samples(rng):
    gate = BudgetGate(GivenGate(N), k=2)
    batch = draw_weights(rng, 20_000)
    for _ in range(100):
        gate(batch, training=True)
    # A sample of 1,024 rows, 39 times on average. Nothing is compared with
    # the last threshold, the smallest weight of all.
    np.testing.assert_allclose(
        to_numpy(gate.thresholds)[1:-1], quantiles(batch)[1:-1], rtol=0.05
    )


def test_a_graph_samples_batches_of_any_size(rng):
    inputs = keras.Input((N,))
    gate = BudgetGate(SoftmaxGate(N), k=2)
    model = keras.Model(inputs, gate(inputs))
    model.compile("sgd", "mse")
    for rows in (3, 5000):
        batch = draw_weights(rng, rows)
        model.train_on_batch(batch, batch)
    assert int(gate.num_updates) == 2
    assert np.isfinite(to_numpy(gate.thresholds)).all()


@pytest.mark.parametrize(
    ("inner", "k", "largest"),
    [
        (SoftmaxGate(N), 1, N),
        (SoftmaxGate(N), 3, N),
        (TopKGate(N, k=6), 3, 6),
        (TopKGate(N, k=2), 3, 3),
        # That is a mean: some examples have more.
        (ReMoEGate(N, k=2), 3, N),
    ],
)
def test_unless_given_training_draws_all_that_there_are(inner, k, largest):
    assert BudgetGate(inner, k=k).train_budgets == (1, largest)


positive = st.floats(2**-10, 1, width=32)


@pytest.mark.traced_once("tensorflow")
@examples(30)
@given(
    weights=hnp.arrays("float32", (4, 6), elements=positive),
    budgets=st.tuples(*[st.floats(1, 6)] * 2).map(sorted),
)
def test_a_larger_budget_keeps_more_of_the_same_experts(weights, budgets):
    gate = BudgetGate(GivenGate(6), k=2)
    gate(weights, training=True)
    fewer, more = (to_numpy(gate(weights, budget=b)) > 0 for b in budgets)
    assert (fewer <= more).all()
    largest = weights.argmax(axis=1)
    assert fewer[np.arange(4), largest].all()
    for budget in (1, *budgets, 6):
        kept = to_numpy(gate(weights, budget=budget))
        np.testing.assert_allclose(
            kept.sum(axis=1), weights.sum(axis=1), rtol=1e-5
        )
    assert (counts_of(gate(weights, budget=1)) == 1).all()
    np.testing.assert_allclose(to_numpy(gate(weights, budget=6)), weights)


def test_budgets_by_example_are_those_of_each_alone(rng):
    gate = given_gate()
    rows = np.tile(WEIGHTS, (2, 1))
    budgets = np.array([1, 3, 2, 2], "float32")
    expected = [
        to_numpy(gate(row[None], budget=float(budget)))[0]
        for row, budget in zip(rows, budgets, strict=True)
    ]
    np.testing.assert_allclose(to_numpy(gate(rows, budget=budgets)), expected)
    # One for all tokens of a sequence, or one for each of them.
    tokens = rows.reshape(2, 2, 3)
    expected = to_numpy(gate(tokens, budget=np.array([[1, 1], [3, 3]])))
    np.testing.assert_array_equal(
        to_numpy(gate(tokens, budget=np.array([1, 3]))), expected
    )


def test_tensors_beyond_the_range_are_clipped():
    gate = given_gate()
    budgets = np.array([-2, 99], "int32")
    weights = to_numpy(gate(WEIGHTS, budget=budgets))
    np.testing.assert_allclose(weights, [[1, 0, 0], WEIGHTS[1]], rtol=1e-6)


def test_nan_in_a_tensor_is_the_budget_of_none():
    gate = given_gate()
    expected = to_numpy(gate(WEIGHTS))
    nan = np.array(np.nan, "float32")
    np.testing.assert_array_equal(to_numpy(gate(WEIGHTS, budget=nan)), expected)
    mixed = to_numpy(gate(WEIGHTS, budget=np.array([np.nan, 3], "float32")))
    np.testing.assert_allclose(mixed, [expected[0], WEIGHTS[1]], rtol=1e-6)
    budget = keras.Input(())
    inputs = keras.Input((3,))
    model = keras.Model([inputs, budget], gate(inputs, budget=budget))
    values = model.predict([WEIGHTS, np.full(2, np.nan)], verbose=0)
    np.testing.assert_array_equal(values, expected)


def test_infinite_tensors_are_clipped():
    weights = given_gate()(WEIGHTS, budget=np.array([-np.inf, np.inf]))
    np.testing.assert_allclose(
        to_numpy(weights), [[1, 0, 0], WEIGHTS[1]], rtol=1e-6
    )


def test_an_example_without_weight_stays_without():
    inputs = np.array([[0, 0, 0], [0, 2, 0]], "float32")
    gate = given_gate()
    for budget in (1, 2, 3):
        np.testing.assert_array_equal(
            to_numpy(gate(inputs, budget=budget)), inputs
        )


def test_gradients_flow_through_what_is_kept(rng):
    gate = BudgetGate(SoftmaxGate(N), k=2)
    x = rng.normal(size=(6, 4)).astype("float32")
    gate(x, training=True)
    goal = keras.ops.convert_to_tensor(rng.normal(size=(6, N)), "float32")
    kernel = gate.gate.kernel

    def gradient(function):
        (gradient,) = weight_gradient(
            lambda: keras.ops.sum(function() * goal), [kernel]
        )
        return gradient

    # All experts: the gate inside. One: its weight is always 1.
    np.testing.assert_allclose(
        gradient(lambda: gate(x, budget=N)),
        gradient(lambda: gate.gate(x)),
        rtol=1e-4,
        atol=1e-6,
    )
    assert abs(gradient(lambda: gate(x, budget=1))).max() < 1e-6
    # In between, what `softmax` over the kept ones has.
    kept = to_numpy(gate(x, budget=3)) > 0

    def softmax():
        logits = keras.ops.matmul(x, kernel) + gate.gate.bias
        return keras.ops.softmax(keras.ops.where(kept, logits, -1e9))

    np.testing.assert_allclose(
        gradient(lambda: gate(x, budget=3)),
        gradient(softmax),
        rtol=1e-3,
        atol=1e-5,
    )


def test_losses_are_those_of_the_gate_inside(rng):
    gate = BudgetGate(SoftmaxGate(N, load_balance_loss_weight=0.5), k=2)
    gate.build((None, 4))
    x = rng.normal(size=(6, 4)).astype("float32")
    _, losses = weigh(gate, x, training=True)
    _, expected = weigh(gate.gate, x, training=True)
    np.testing.assert_allclose(losses, expected, rtol=1e-6)


def test_ids_are_routed(rng):
    ids = rng.integers(50, size=(2, 3)).astype("int32")
    gate = BudgetGate(HashGate(N, num_buckets=50), k=2)
    # There is one to keep, whatever the budget.
    np.testing.assert_array_equal(
        to_numpy(gate(ids, budget=4)), to_numpy(gate.gate(ids))
    )


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("sparse_pays")
@pytest.mark.parametrize("training", [False, True])
def test_sparse_execution_is_dense_execution_at_any_budget(training, rng):
    weights = draw_weights(rng, 64)
    x = rng.normal(size=(64, 3)).astype("float32")
    gate = BudgetGate(GivenGate(N), k=2)
    gate(weights, training=True)
    experts = MLPExperts(N, 4, seed=0)
    outputs = to_numpy(experts(x))
    budgets = np.tile([1, 8], 32).astype("float32")
    mixture = MoE(gate, experts, execution="sparse")
    for budget in (1, 2.5, 8, budgets):
        values = to_numpy(mixture(x, weights, training=training, budget=budget))
        # With the same rows, the thresholds stay.
        chosen = to_numpy(gate(weights, budget=budget))
        expected = np.einsum("ne,neh->nh", chosen, outputs)
        np.testing.assert_allclose(values, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.traced_once("tensorflow")
@pytest.mark.eager
@pytest.mark.usefixtures("sparse_pays")
def test_execution_plans_for_the_budget_of_the_call(rng, monkeypatch):
    weights = draw_weights(rng, 64)
    x = rng.normal(size=(64, 3)).astype("float32")
    gate = BudgetGate(GivenGate(N), k=2)
    gate(weights, training=True)
    mixture = MoE(gate, MLPExperts(N, 4, seed=0))
    plans = []
    run_planned = Execution._run_planned

    def spy(execution, rows, *args):
        plans.append(execution.bounds.of_batch(len(rows), None))
        return run_planned(execution, rows, *args)

    monkeypatch.setattr(Execution, "_run_planned", spy)
    mixture(x, weights)
    mixture(x, weights, budget=1.25)
    mixture(x, weights, budget=np.ones(64, "float32"))
    mixture(x, weights, training=True)
    mean = np.ceil(64 * 7 / np.log(8))
    assert plans == [2 * 64, 1.25 * 64, N / 2 * 64, mean]


@pytest.mark.eager
@pytest.mark.usefixtures("sparse_pays")
def test_a_batch_above_its_budget_is_dense(rng, monkeypatch):
    weights = draw_weights(rng, 64)
    x = rng.normal(size=(64, 3)).astype("float32")
    gate = BudgetGate(GivenGate(N), k=2)
    gate(weights, training=True)
    mixture = MoE(gate, MLPExperts(N, 4, seed=0))
    sparse = []
    run_first_if = Execution._run_first_if

    def spy(execution, condition, *ways, **options):
        sparse.append(bool(condition))
        return run_first_if(execution, condition, *ways, **options)

    monkeypatch.setattr(Execution, "_run_first_if", spy)
    mixture(x, weights)
    # All experts reach a threshold of nothing.
    gate.thresholds.assign(0 * to_numpy(gate.thresholds))
    outputs = to_numpy(mixture(x, weights))
    assert sparse == [True, False]
    expected = np.einsum("ne,neh->nh", weights, to_numpy(mixture.experts(x)))
    np.testing.assert_allclose(outputs, expected, rtol=1e-3, atol=1e-5)


def test_all_tasks_of_a_mixture_have_the_budget(rng):
    gates = {
        task: BudgetGate(SoftmaxGate(N, seed=i), k=2)
        for i, task in enumerate(("watch", "rating"))
    }
    experts = MLPExperts(N, 4, seed=0)
    mixture = MMoE(gates, experts)
    x = rng.normal(size=(16, 3)).astype("float32")
    mixture(x, training=True)
    for task, outputs in mixture(x, budget=3).items():
        weights = to_numpy(gates[task](x, budget=3))
        assert counts_of(weights).mean() == pytest.approx(3, rel=0.1)
        expected = np.einsum("ne,neh->nh", weights, to_numpy(experts(x)))
        np.testing.assert_allclose(
            to_numpy(outputs), expected, rtol=1e-3, atol=1e-5
        )


def test_masks_and_budgets_are_inputs_of_a_functional_model(rng):
    tokens = keras.Input((3, 4))
    budget = keras.Input(())
    gate = BudgetGate(SoftmaxGate(N, bias_initializer="random_normal"), k=2)
    masked = keras.layers.Masking()(tokens)
    model = keras.Model([tokens, budget], gate(masked, budget=budget))
    x = rng.normal(size=(2, 3, 4)).astype("float32")
    x[0, 1] = 0
    weights = to_numpy(model([x, np.array([1, 8], "float32")]))
    assert counts_of(weights).tolist() == [[1, 0, 1], [8, 8, 8]]


def test_a_saved_model_takes_budgets(tmp_path, rng):
    x = rng.normal(size=(6, 4)).astype("float32")
    mixture = MoE(BudgetGate(SoftmaxGate(5), k=2), MLPExperts(5, 3))
    mixture(x, training=True)
    inputs, budget = keras.Input((4,)), keras.Input(())
    model = keras.Model([inputs, budget], mixture(inputs, budget=budget))
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    budgets = np.array([1, 2, 3, 4, 5, 1], "float32")
    np.testing.assert_allclose(
        to_numpy(restored([x, budgets])),
        to_numpy(mixture(x, budget=budgets)),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize("arguments", [{"k": 2}, {"mass": 0.5}])
def test_it_is_a_proper_layer(arguments, tmp_path, rng):
    check_layer(
        lambda: BudgetGate(SoftmaxGate(5), **arguments),
        rng.normal(size=(6, 4)).astype("float32"),
        folder=tmp_path,
        output_shape=(6, 5),
        trainable_weights=2,
        non_trainable_weights=2 * ("k" in arguments),
        follows_policy=False,
    )


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: BudgetGate("softmax", k=2),
            TypeError,
            "`gate` must be a keras_moe Gate. Received: gate='softmax'",
        ),
        (
            lambda: BudgetGate(TopKGate(N, k=2, static=True), k=1),
            ValueError,
            "`gate` must not be static",
        ),
        (
            lambda: BudgetGate(SoftmaxGate(N)),
            ValueError,
            "Either `k` or `mass` must be given. Received: k=None, mass=None",
        ),
        (
            lambda: BudgetGate(SoftmaxGate(N), k=2, mass=0.5),
            ValueError,
            "Either `k` or `mass` must be given. Received: k=2, mass=0.5",
        ),
        (
            lambda: BudgetGate(SoftmaxGate(N), k=0.5),
            ValueError,
            "`k` must be between 1 and 8, the number of experts. "
            "Received: k=0.5",
        ),
        (
            lambda: BudgetGate(SoftmaxGate(N), mass=1.5),
            ValueError,
            "`mass` must be at most 1. Received: mass=1.5",
        ),
        (
            lambda: BudgetGate(SoftmaxGate(N), k=2, train_budgets=3),
            ValueError,
            "`train_budgets` must be two numbers",
        ),
        (
            lambda: BudgetGate(SoftmaxGate(N), k=2, train_budgets=(1, 9)),
            ValueError,
            "`train_budgets` must be between 1 and 8",
        ),
        (
            lambda: BudgetGate(SoftmaxGate(N), k=2, train_budgets=(4, 2)),
            ValueError,
            "`train_budgets` must begin with the smaller number",
        ),
        (
            lambda: BudgetGate(SoftmaxGate(N), mass=0.5, train_budgets=(1, 2)),
            ValueError,
            "`train_budgets` must be None with `mass`",
        ),
        (
            lambda: BudgetGate(SoftmaxGate(N), k=2, z_loss_weight=0.1),
            ValueError,
            "`z_loss_weight` must be 0: it belongs to the gate inside",
        ),
    ],
)
def test_refuses_other_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.eager
@pytest.mark.parametrize(
    ("budget", "error", "message"),
    [
        (0, ValueError, "`budget` must be a finite number above 0"),
        (-1.5, ValueError, "above 0. Received: budget=-1.5"),
        (float("nan"), ValueError, "above 0. Received: budget=nan"),
        (float("inf"), ValueError, "above 0. Received: budget=inf"),
        (9, ValueError, "`budget` must be between 1 and 3"),
        ("4", TypeError, "`budget` must be a number"),
        (np.ones(5), ValueError, r"Received: budget of shape \(5,\)"),
        (np.ones((2, 3)), ValueError, r"Received: budget of shape \(2, 3\)"),
    ],
)
def test_refuses_other_budgets(budget, error, message):
    with pytest.raises(error, match=message):
        given_gate()(WEIGHTS, budget=budget)


def test_a_mass_takes_no_budget():
    gate = BudgetGate(GivenGate(3), mass=0.5)
    with pytest.raises(ValueError, match="`budget` must be None with `mass`"):
        gate(WEIGHTS, budget=2)


@pytest.mark.parametrize(
    "gate",
    [
        SoftmaxGate(N),
        BudgetGate(SoftmaxGate(N), mass=0.5),
        PermutedGate(BudgetGate(SoftmaxGate(N), k=2)),
    ],
)
def test_a_mixture_refuses_a_budget_that_its_gates_do_not_take(gate, rng):
    mixture = MoE(gate, MLPExperts(N, 4))
    x = rng.normal(size=(4, 3)).astype("float32")
    with pytest.raises(ValueError, match="`budget` must be None with a gate"):
        mixture(x, budget=2)


@pytest.mark.traced_once("tensorflow")
def test_thresholds_are_set_to_those_of_examples(rng):
    gate = given_gate()
    rows = draw_weights(rng, 50, 3)
    broken = np.array([[0.1, np.nan, 0.9]], "float32")
    gate.set_thresholds(np.concatenate([4 * rows, broken]))
    np.testing.assert_allclose(
        to_numpy(gate.thresholds), quantiles(rows), rtol=1e-5
    )
    # Without an example that counts, they stay.
    gate.set_thresholds(broken)
    np.testing.assert_allclose(
        to_numpy(gate.thresholds), quantiles(rows), rtol=1e-5
    )
