import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy
from scipy.optimize import linear_sum_assignment

from keras_moe.layers import SinkhornPermutation
from keras_moe.ops import sinkhorn
from keras_moe.ops._annealed_sinkhorn import log_annealed_sinkhorn
from tests.gradients import weight_gradient
from tests.keras_moe.layers.layer_test import check_layer

N = 4
NORMALIZED = pytest.mark.parametrize("normalized", ["rows", "columns"])


def build(logits=None, **kwargs):
    kwargs = {"logits_initializer": "zeros", **kwargs}
    permutation = SinkhornPermutation(N, **kwargs)
    permutation.build((None, N))
    if logits is not None:
        permutation.logits.assign(logits)
    return permutation


def soft_reference(logits, temperature, num_iterations):
    """Rows, then columns, by NumPy in float64."""
    matrix = np.exp(logits.astype("float64") / temperature)
    for _ in range(num_iterations):
        matrix /= matrix.sum(axis=1, keepdims=True)
        matrix /= matrix.sum(axis=0, keepdims=True)
    return matrix


def applied_reference(normalized, *args):
    """The matrix that multiplies the weights from the left."""
    matrix = soft_reference(*args)
    return matrix.T if normalized == "rows" else matrix


def entropy(matrix):
    return -np.sum(matrix * np.log(matrix + 1e-6))


@pytest.fixture
def logits(rng):
    """Narrow enough for a matrix that is soft at the first temperature."""
    return rng.uniform(-1e-3, 1e-3, size=(N, N)).astype("float32")


@pytest.fixture
def weights(rng):
    weights = rng.uniform(size=(3, N)).astype("float32")
    return weights / weights.sum(axis=-1, keepdims=True)


def test_each_expert_gets_the_entry_of_its_order():
    permutation = build()
    permutation.order.assign([2, 0, 3, 1])
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [1.0, 0.0, 0.0, 0.0]], "float32")
    np.testing.assert_array_equal(
        to_numpy(permutation(weights, training=False)),
        np.array([[0.3, 0.1, 0.4, 0.2], [0.0, 1.0, 0.0, 0.0]], "float32"),
    )


@NORMALIZED
def test_training_takes_the_soft_matrix(normalized, logits, weights):
    soft = applied_reference(normalized, logits, 1e-3, 20)
    expected = weights @ soft.T
    outputs = build(logits, normalized=normalized)(weights, training=True)
    np.testing.assert_allclose(
        to_numpy(outputs),
        expected / expected.sum(axis=-1, keepdims=True),
        rtol=1e-4,
    )


def test_training_is_that_of_the_authors_code(logits, weights):
    """g'_j = Σ_i g_i S_ij, then divided by its sum."""
    soft = soft_reference(logits, 1e-3, 20)
    expected = np.einsum("bi,ij->bj", weights, soft)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        to_numpy(build(logits)(weights, training=True)), expected, rtol=1e-4
    )


@NORMALIZED
def test_a_row_keeps_its_sum_at_any_moment(normalized, rng):
    weights = np.array([[0.3, 0.0, 0.2, 0.0], [0.0] * N], "float32")
    # So wide, that no entry of the matrix need be near its limit.
    logits = rng.uniform(-0.05, 0.05, size=(N, N))
    permutation = build(logits, normalized=normalized)
    permutation.num_steps.assign(4)
    for _ in range(4):
        outputs = to_numpy(permutation(weights, training=True))
        np.testing.assert_allclose(outputs.sum(axis=-1), [0.5, 0.0], rtol=1e-6)


@pytest.mark.parametrize("step", [0, 3, 10])
@pytest.mark.parametrize(("normalized", "axis"), [("rows", 1), ("columns", 0)])
def test_what_is_normalized_sums_to_1(normalized, axis, step, rng):
    permutation = build(
        rng.uniform(-0.05, 0.05, size=(N, N)), normalized=normalized
    )
    permutation.num_steps.assign(10)
    permutation.step.assign(step)
    matrix = permutation.matrix()
    np.testing.assert_allclose(matrix.sum(axis=axis), 1.0, rtol=1e-5)
    np.testing.assert_allclose(matrix.sum(), N, rtol=1e-5)


def test_one_matrix_is_the_other_transposed(rng):
    logits = rng.uniform(-0.05, 0.05, size=(N, N))
    rows, columns = (
        build(logits, normalized=name).matrix() for name in ("rows", "columns")
    )
    assert np.abs(columns.sum(axis=1) - 1).max() > 0.01
    np.testing.assert_array_equal(rows, columns.T)


def test_static_weights_are_permuted_too(logits, weights):
    permutation = build(logits)
    for training in (False, True):
        np.testing.assert_allclose(
            to_numpy(permutation(weights[0], training=training)),
            to_numpy(permutation(weights, training=training))[0],
            rtol=1e-6,
        )


def test_the_penalty_is_the_entropy_of_the_matrix_and_of_its_rows(
    logits, weights
):
    permutation = build(logits, entropy_weight=0.1)
    permutation(weights, training=True)
    soft = soft_reference(logits, 1e-3, 20)
    rows = soft / soft.sum(axis=1, keepdims=True)
    (loss,) = permutation.losses
    np.testing.assert_allclose(
        to_numpy(loss), 0.1 * (entropy(soft) + entropy(rows)), rtol=1e-4
    )


@NORMALIZED
def test_a_new_layer_evaluates_with_the_assignment_of_its_logits(normalized):
    permutation = build(
        logits_initializer="random_uniform", seed=3, normalized=normalized
    )
    soft = to_numpy(sinkhorn(to_numpy(permutation.logits), 1e-3, 20))
    soft = soft.T if normalized == "rows" else soft
    expected = linear_sum_assignment(soft, maximize=True)[1]
    np.testing.assert_array_equal(to_numpy(permutation.order), expected)


@NORMALIZED
def test_harden_takes_the_nearest_permutation(normalized, logits):
    permutation = build(logits, normalized=normalized)
    distance = permutation.harden()
    soft = applied_reference(normalized, logits, 1e-3, 20)
    rows, order = linear_sum_assignment(soft, maximize=True)
    np.testing.assert_array_equal(to_numpy(permutation.order), order)
    hard = np.zeros((N, N))
    hard[rows, order] = 1.0
    assert distance == pytest.approx(np.linalg.norm(soft - hard), rel=1e-4)


@NORMALIZED
def test_evaluation_is_training_where_the_matrix_is_hard(normalized, weights):
    """With logits far apart, of a permutation that is not its own inverse."""
    permutation = build(np.eye(N)[[1, 2, 3, 0]], normalized=normalized)
    assert permutation.harden() == pytest.approx(0.0, abs=1e-6)
    order = {"rows": [3, 0, 1, 2], "columns": [1, 2, 3, 0]}[normalized]
    np.testing.assert_array_equal(to_numpy(permutation.order), order)
    for training in (True, False):
        np.testing.assert_allclose(
            to_numpy(permutation(weights, training=training)),
            weights[:, order],
            rtol=1e-6,
        )


@NORMALIZED
def test_the_matrix_is_soft_until_the_search_is_over(normalized, logits):
    permutation = build(logits, normalized=normalized)
    np.testing.assert_allclose(
        permutation.matrix(),
        applied_reference(normalized, logits, 1e-3, 20),
        rtol=1e-4,
    )
    permutation.order.assign([2, 0, 3, 1])
    permutation.freeze()
    np.testing.assert_array_equal(permutation.matrix(), np.eye(N)[[2, 0, 3, 1]])


@pytest.mark.parametrize(
    ("step", "num_iterations", "log10_temperature"),
    [(0, 20, -3.0), (3, 59, -4.2), (5, 85, -5.0), (10, 150, -7.0)],
)
def test_the_schedule(step, num_iterations, log10_temperature):
    permutation = build()
    permutation.num_steps.assign(10)
    permutation.step.assign(step)
    assert int(to_numpy(permutation.num_iterations)) == num_iterations
    np.testing.assert_allclose(
        to_numpy(permutation.temperature), 10**log10_temperature, rtol=1e-5
    )


def test_the_schedule_waits_where_the_steps_are_not_known():
    permutation = build()
    permutation.step.assign(7)
    assert int(to_numpy(permutation.num_iterations)) == 20
    np.testing.assert_allclose(to_numpy(permutation.temperature), 1e-3)


@pytest.mark.parametrize("step", [0, 10])
def test_the_annealed_schedule(step, logits, weights):
    """Ten iterations per expert, down to the published temperature."""
    permutation = build(logits, schedule="annealed")
    permutation.num_steps.assign(10)
    permutation.step.assign(step)
    assert int(to_numpy(permutation.num_iterations)) == 10 * N
    temperature = 10.0 ** (-3 - 4 * step / 10)
    log_soft = log_annealed_sinkhorn(logits, temperature, 10 * N)
    soft = np.exp(to_numpy(log_soft)).T
    np.testing.assert_allclose(permutation.matrix(), soft, atol=1e-4)
    # A call counts its step first.
    permutation.step.assign(max(0, step - 1))
    permutation.num_steps.assign(0 if step == 0 else 10)
    np.testing.assert_allclose(
        to_numpy(permutation(weights, training=True)),
        weights @ soft.T / (weights @ soft.T).sum(axis=-1, keepdims=True),
        atol=1e-4,
    )


def test_an_annealed_search_ends_at_the_assignment_of_its_logits(rng):
    logits = rng.uniform(-0.05, 0.05, size=(N, N)).astype("float32")
    permutation = build(logits, schedule="annealed")
    permutation.num_steps.assign(10)
    permutation.step.assign(10)
    assert permutation.harden() < 1e-3
    order = linear_sum_assignment(logits.T, maximize=True)[1]
    np.testing.assert_array_equal(to_numpy(permutation.order), order)


def test_after_an_annealed_search_nothing_is_computed(logits, weights):
    permutation = build(logits, schedule="annealed")
    permutation.freeze()
    assert int(to_numpy(permutation.num_iterations)) == 0
    np.testing.assert_array_equal(
        to_numpy(permutation(weights, training=True)),
        weights[:, to_numpy(permutation.order)],
    )
    assert not logits_gradient(permutation, weights).any()


def test_a_config_without_a_schedule_is_published():
    config = SinkhornPermutation(N).get_config()
    del config["schedule"]
    assert SinkhornPermutation.from_config(config).schedule == "published"


def test_only_training_counts_steps(weights):
    permutation = build()
    permutation(weights, training=False)
    assert int(to_numpy(permutation.step)) == 0
    permutation(weights, training=True)
    permutation(weights, training=True)
    assert int(to_numpy(permutation.step)) == 2


def logits_gradient(permutation, weights):
    def first_weights():
        return keras.ops.sum(permutation(weights, training=True)[..., 0])

    return weight_gradient(first_weights, [permutation.logits])[0]


def test_the_search_has_a_gradient_to_the_end(logits, weights):
    permutation = build(logits, entropy_weight=0.0)
    assert np.abs(logits_gradient(permutation, weights)).max() > 0
    permutation.num_steps.assign(10)
    permutation.step.assign(10)
    assert np.isfinite(logits_gradient(permutation, weights)).all()


def test_after_the_search_the_logits_are_of_no_consequence(logits, weights):
    permutation = build(logits, entropy_weight=0.1)
    permutation.harden()
    permutation.freeze()
    before = to_numpy(permutation(weights, training=True))
    np.testing.assert_array_equal(
        before, weights[:, to_numpy(permutation.order)]
    )
    assert [to_numpy(loss) for loss in permutation.losses] == [0.0]
    assert not logits_gradient(permutation, weights).any()
    permutation.logits.assign(-100 * logits)
    assert permutation.harden() == 0.0
    np.testing.assert_array_equal(
        to_numpy(permutation(weights, training=True)), before
    )
    assert int(to_numpy(permutation.step)) == 0


@pytest.mark.parametrize(
    "kwargs",
    [{}, {"normalized": "columns"}, {"schedule": "annealed"}],
    ids=["published", "columns", "annealed"],
)
def test_it_is_a_proper_layer(kwargs, tmp_path, rng):
    check_layer(
        lambda: SinkhornPermutation(N, **kwargs),
        rng.uniform(size=(3, N)).astype("float32"),
        folder=tmp_path,
        output_shape=(3, N),
        trainable_weights=1,
        non_trainable_weights=4,
        training_losses=1,
        follows_policy=False,
        built_in_graph=False,
    )


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: SinkhornPermutation(1),
            ValueError,
            r"`num_experts` must be at least 2. Received: num_experts=1",
        ),
        (
            lambda: SinkhornPermutation(N, entropy_weight=-1.0),
            ValueError,
            r"`entropy_weight` must be .* at least 0. Received: ",
        ),
        (
            lambda: SinkhornPermutation(N, normalized="both"),
            ValueError,
            r"`normalized` must be one of 'rows', 'columns'. Received: ",
        ),
        (
            lambda: SinkhornPermutation(N, schedule="slow"),
            ValueError,
            r"`schedule` must be one of 'published', 'annealed'. Received: ",
        ),
        (
            lambda: SinkhornPermutation(N)(np.ones((2, 3))),
            ValueError,
            r"`inputs` must have 4 entries.*Received: shape \(2, 3\)",
        ),
    ],
)
def test_refuses_other_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()
