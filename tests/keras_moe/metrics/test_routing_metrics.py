import keras
import numpy as np
import pytest
from keras import ops

from keras_moe.metrics import ExpertsPerExample
from keras_moe.metrics import LoadImbalance
from keras_moe.metrics import LoadPerExpert
from keras_moe.metrics import SimplexViolation
from keras_moe.metrics import WeightEntropy
from keras_moe.metrics import WeightPerExpert
from keras_moe.ops import is_selected

NUM_EXPERTS = 4
METRICS = {
    "experts_per_example": ExpertsPerExample,
    "load_per_expert": lambda **kwargs: LoadPerExpert(NUM_EXPERTS, **kwargs),
    "load_imbalance": lambda **kwargs: LoadImbalance(NUM_EXPERTS, **kwargs),
    "weight_entropy": WeightEntropy,
    "simplex_violation": SimplexViolation,
    "weight_per_expert": lambda **kwargs: WeightPerExpert(
        NUM_EXPERTS, **kwargs
    ),
}
every_metric = pytest.mark.parametrize("name", METRICS)

WEIGHTS = np.array(
    [
        [0.5, 0.5, 0.0, 0.0],
        [1.0, 0.0, 0.0, 0.0],
        [0.25, 0.25, 0.25, 0.25],
        [0.0, 0.9, 0.0, 0.0],
    ],
    "float32",
)
# By hand: 2, 1, 4 and 1 experts; entropies log 2, 0, log 4 and 0.
EXPECTED = {
    "experts_per_example": 8 / 4,
    "load_per_expert": [3 / 4, 3 / 4, 1 / 4, 1 / 4],
    "load_imbalance": (3 / 4) / (2 / 4),
    "weight_entropy": 3 * np.log(2) / 4,
    "simplex_violation": 0.1,
    "weight_per_expert": [1.75 / 4, 1.65 / 4, 0.25 / 4, 0.25 / 4],
}
# By hand, when only the second and third rows count.
MASK = np.array([0, 1, 1, 0])
EXPECTED_MASKED = {
    "experts_per_example": 5 / 2,
    "load_per_expert": [1, 1 / 2, 1 / 2, 1 / 2],
    "load_imbalance": 1 / (5 / 8),
    "weight_entropy": np.log(2),
    "simplex_violation": 0.0,
    "weight_per_expert": [1.25 / 2, 0.25 / 2, 0.25 / 2, 0.25 / 2],
}


def numpy_statistics(rows, counts):
    """The six statistics in float64, of whole arrays."""
    rows, counts = rows[counts > 0].astype("float64"), counts[counts > 0]
    selected = rows >= np.float32(1e-5)
    loads = counts @ selected / counts.sum()
    sums = rows.sum(-1)
    p = rows[sums > 0] / sums[sums > 0, None]
    entropies = -(p * np.log(np.where(p > 0, p, 1))).sum(-1)
    return {
        "experts_per_example": counts @ selected.sum(-1) / counts.sum(),
        "load_per_expert": loads,
        "load_imbalance": loads.max() / loads.mean(),
        "weight_entropy": counts[sums > 0] @ entropies / counts[sums > 0].sum(),
        "simplex_violation": max(np.abs(sums - 1).max(), -rows.min(), 0),
        "weight_per_expert": counts @ rows / counts.sum(),
    }


def random_weights(rng, *leading):
    """Weights that are mostly zero; some rows wholly."""
    weights = rng.dirichlet(np.full(NUM_EXPERTS, 0.3), leading)
    weights = weights * (rng.random(weights.shape) < 0.6)
    return weights.astype("float32")


def result(metric):
    return ops.convert_to_numpy(metric.result())


@pytest.mark.parametrize(
    ("weight", "expected"),
    [(1e-5, True), (9.9e-6, False), (0.0, False), (1.0, True), (-1.0, False)],
)
def test_a_weight_of_1e_5_counts_as_selected(weight, expected):
    assert bool(is_selected(ops.convert_to_tensor(weight))) is expected


@every_metric
def test_hand_computed(name):
    metric = METRICS[name]()
    metric.update_state(WEIGHTS)
    np.testing.assert_allclose(result(metric), EXPECTED[name], rtol=1e-6)


@every_metric
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_masked_rows_do_not_count(name, dtype):
    weights = WEIGHTS.copy()
    weights[0] = np.nan
    metric = METRICS[name]()
    metric.update_state(weights, sample_weight=MASK.astype(dtype))
    np.testing.assert_allclose(result(metric), EXPECTED_MASKED[name], rtol=1e-6)


@every_metric
def test_a_mask_of_tokens_is_exact_over_sequences_of_differing_length(name):
    rng = np.random.default_rng(0)
    metric = METRICS[name]()
    rows, counts = [], []
    for batch, length in [(2, 10), (4, 1)]:
        weights = random_weights(rng, batch, length)
        mask = rng.random((batch, length)) < 0.7
        metric.update_state(weights, sample_weight=mask)
        rows.append(weights.reshape(-1, NUM_EXPERTS))
        counts.append(mask.reshape(-1).astype("float64"))
    expected = numpy_statistics(np.concatenate(rows), np.concatenate(counts))
    np.testing.assert_allclose(result(metric), expected[name], rtol=1e-5)


@every_metric
def test_sample_weights_count_in_proportion(name):
    rng = np.random.default_rng(1)
    weights = random_weights(rng, 20)
    sample_weight = rng.integers(0, 4, 20).astype("float32")
    metric = METRICS[name]()
    metric.update_state(weights, sample_weight=sample_weight)
    repeated = np.repeat(weights, sample_weight.astype(int), axis=0)
    expected = numpy_statistics(repeated, np.ones(len(repeated)))
    np.testing.assert_allclose(result(metric), expected[name], rtol=1e-5)


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(2)
@every_metric
def test_uneven_batches_give_what_the_whole_gives(name):
    weights = random_weights(np.random.default_rng(2), 44)
    streamed, whole = METRICS[name](), METRICS[name]()
    for batch in np.split(weights, [20, 20, 24]):  # One has no rows.
        streamed.update_state(batch)
    whole.update_state(weights)
    expected = numpy_statistics(weights, np.ones(44))
    np.testing.assert_allclose(result(streamed), result(whole), rtol=1e-6)
    np.testing.assert_allclose(result(streamed), expected[name], rtol=1e-5)


@every_metric
def test_compiled_updates_equal_eager_ones(name):
    weights = random_weights(np.random.default_rng(3), 3, 8)
    eager, compiled = METRICS[name](), METRICS[name]()
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        update = tf.function(compiled.update_state, jit_compile=True)
    elif keras.backend.backend() == "jax":
        import jax

        step = jax.jit(compiled.stateless_update_state)

        def update(batch):
            values = step([v.value for v in compiled.variables], batch)
            for variable, value in zip(compiled.variables, values, strict=True):
                variable.assign(value)
    else:
        update = compiled.update_state  # Eager is how PyTorch runs.
    for batch in weights:
        update(ops.convert_to_tensor(batch))
        eager.update_state(batch)
    np.testing.assert_allclose(result(compiled), result(eager), rtol=1e-6)


@every_metric
def test_zero_before_anything_was_seen_and_after_a_reset(name):
    metric = METRICS[name]()
    np.testing.assert_array_equal(result(metric), np.zeros_like(EXPECTED[name]))
    metric.update_state(WEIGHTS)
    metric.reset_state()
    np.testing.assert_array_equal(result(metric), np.zeros_like(EXPECTED[name]))


@every_metric
def test_a_static_gate_is_one_row(name):
    metric = METRICS[name]()
    metric.update_state(WEIGHTS[0])
    expected = numpy_statistics(WEIGHTS[:1], np.ones(1))
    np.testing.assert_allclose(result(metric), expected[name], rtol=1e-6)


@every_metric
def test_half_precision_weights_are_accepted(name):
    metric = METRICS[name]()
    metric.update_state(ops.cast(WEIGHTS, "bfloat16"))
    np.testing.assert_allclose(result(metric), EXPECTED[name], rtol=2e-2)


@every_metric
def test_survives_serialization_without_custom_objects(name):
    metric = METRICS[name](name="watch")
    copy = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(metric)
    )
    assert type(copy) is type(metric)
    assert copy.get_config() == metric.get_config()
    copy.update_state(WEIGHTS)
    np.testing.assert_allclose(result(copy), EXPECTED[name], rtol=1e-6)


def test_rows_without_weight_have_no_entropy_to_average():
    metric = WeightEntropy()
    metric.update_state([[0.5, 0.5], [0.0, 0.0]])
    np.testing.assert_allclose(result(metric), np.log(2), rtol=1e-6)


def test_a_negative_weight_violates_the_simplex():
    metric = SimplexViolation()
    metric.update_state([[1.5, -0.5], [0.5, 0.5]])
    assert result(metric) == 0.5


@pytest.mark.parametrize("weight", [np.nan, np.inf, -np.inf])
def test_a_weight_that_is_not_finite_violates_the_simplex(weight):
    metric = SimplexViolation()
    metric.update_state([[0.5, 0.5], [weight, 0.5]])
    metric.update_state([[0.5, 0.5]])
    assert result(metric) == np.inf


@every_metric
def test_a_mask_of_another_rank_is_refused(name):
    metric = METRICS[name]()
    with pytest.raises(
        ValueError, match=r"`sample_weight` must have.*Received: .*\(2,\)"
    ):
        metric.update_state(np.zeros((2, 3, 4)), sample_weight=[1, 0])


@pytest.mark.parametrize(
    "metric_class", [LoadPerExpert, LoadImbalance, WeightPerExpert]
)
def test_weights_of_another_number_of_experts_are_refused(metric_class):
    metric = metric_class(4)
    with pytest.raises(
        ValueError, match=r"`weights` must have 4 experts.*\(2, 3\)"
    ):
        metric.update_state(np.zeros((2, 3)))


@pytest.mark.parametrize(
    "metric_class", [LoadPerExpert, LoadImbalance, WeightPerExpert]
)
def test_num_experts_is_checked(metric_class):
    with pytest.raises(ValueError, match="`num_experts` must be at least 2"):
        metric_class(1)
    with pytest.raises(TypeError, match="`num_experts` must be an integer"):
        metric_class(2.5)
