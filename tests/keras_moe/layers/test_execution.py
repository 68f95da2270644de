"""Dense, sparse and auto execution: the same values, the same gradients."""

import functools
from collections.abc import Callable
from collections.abc import Sequence

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import Experts
from keras_moe.layers import LayerExperts
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from keras_moe.layers.isolated_state import random_states
from keras_moe.layers.pair_bounds import PAIR_BUDGET_SLACK
from tests.examples import examples
from tests.gradients import gradient_function
from tests.keras_moe.layers.given_gate import GivenGate
from tests.keras_moe.layers.given_gate import balanced
from tests.keras_moe.layers.given_gate import dense
from tests.keras_moe.layers.given_gate import ragged
from tests.keras_moe.layers.given_gate import skewed

pytestmark = pytest.mark.usefixtures("sparse_pays")

Pattern = Callable[[int, int, int], np.ndarray]
Results = list[np.ndarray]

INPUTS, UNITS, ROWS = 3, 2, 17
SIZES = [(2, 1), (2, 2), (3, 1), (5, 2), (8, 3), (9, 9), (16, 2), (33, 4)]


def make_mixture(
    execution: str, n: int, k: int, num_tasks: int = 1, bounded: bool = False
) -> MMoE:
    mixture = MMoE(
        [GivenGate(n, k=k, bounded=bounded) for _ in range(num_tasks)],
        MLPExperts(n, [4, UNITS], bias_initializer="random_normal", seed=0),
        execution=execution,
    )
    mixture.build((None, INPUTS), [(None, n)] * num_tasks)
    return mixture


def results(mixture: MMoE, x: np.ndarray, weights: list[np.ndarray]) -> Results:
    """Outputs, and gradients for inputs, gates' weights and experts."""

    def loss(x: object, *weights: object) -> object:
        outputs = mixture(x, gate_inputs=list(weights))
        return sum(
            (task + 1) * ops.sum(ops.square(output))
            for task, output in enumerate(outputs)
        )

    outputs = [to_numpy(y) for y in mixture(x, gate_inputs=weights)]
    variables = mixture.trainable_variables
    values = [variable.value for variable in variables]
    gradients = gradient_function(loss, variables)(*values, x, *weights)
    of_experts, of_inputs = (
        gradients[: len(variables)],
        gradients[len(variables) :],
    )
    return [*outputs, *of_inputs, *of_experts]


def assert_same(
    n: int, k: int, weights: list[np.ndarray], x: np.ndarray, **options: bool
) -> None:
    """Compares the executions; a zero weight's own gradient is left out."""
    num_tasks = len(weights)
    expected = results(make_mixture("dense", n, k, num_tasks), x, weights)
    for execution in ("sparse", "auto"):
        mixture = make_mixture(execution, n, k, num_tasks, **options)
        actual = results(mixture, x, weights)
        assert_agree(expected, actual, weights)


def assert_agree(
    expected: Results, actual: Results, weights: Sequence[np.ndarray]
) -> None:
    first = len(weights) + 1  # Where the gradients of the weights stand.
    for task, array in enumerate(weights):
        for side in (expected, actual):
            side[first + task] = side[first + task] * (array != 0)
    for one, other in zip(expected, actual, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(ROWS, INPUTS)).astype("float32")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("pattern", [balanced, skewed, ragged])
@pytest.mark.parametrize(("n", "k"), SIZES)
def test_all_executions_agree(
    n: int, k: int, pattern: Pattern, x: np.ndarray
) -> None:
    assert_same(n, k, [pattern(ROWS, n, k)], x)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", [0, 1])
def test_they_agree_on_batches_of_no_row_and_one(
    rows: int, x: np.ndarray
) -> None:
    assert_same(5, 2, [balanced(rows, 5, 2)], x[:rows])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize(("n", "k"), [(5, 1), (16, 2)])
def test_they_agree_with_three_tasks(
    n: int, k: int, bounded: bool, x: np.ndarray
) -> None:
    weights = [pattern(ROWS, n, k) for pattern in (balanced, skewed, ragged)]
    assert_same(n, k, weights, x, bounded=bounded)


@pytest.mark.skipif(
    keras.backend.backend() == "jax",
    reason="the loop over blocks has first derivatives only",
)
def test_second_derivatives_agree(x: np.ndarray) -> None:
    weights = [pattern(ROWS, 5, 2) for pattern in (balanced, ragged)]
    expected, actual = (
        penalty_gradient(make_mixture(execution, 5, 2, 2), x, weights)
        for execution in ("dense", "sparse")
    )
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(expected, actual, rtol=1e-3, atol=1e-4)


def penalty_gradient(
    mixture: MMoE, x: np.ndarray, weights: list[np.ndarray]
) -> np.ndarray:
    """The gradient of the squared norm of a gradient, for the inputs."""

    def loss(x: object) -> object:
        outputs = mixture(x, gate_inputs=weights)
        return sum(ops.sum(ops.square(output)) for output in outputs)

    rows = ops.convert_to_tensor(x)
    if keras.backend.backend() == "torch":
        import torch

        rows.requires_grad_(True)
        (grad,) = torch.autograd.grad(loss(rows), rows, create_graph=True)
        (result,) = torch.autograd.grad(ops.sum(ops.square(grad)), rows)
        return to_numpy(result)
    import tensorflow as tf

    with tf.GradientTape() as outer:
        outer.watch(rows)
        with tf.GradientTape() as inner:
            inner.watch(rows)
            value = loss(rows)
        penalty = ops.sum(ops.square(inner.gradient(value, rows)))
    return to_numpy(outer.gradient(penalty, rows))


def test_rows_without_any_weight_get_zeros(x: np.ndarray) -> None:
    weights = np.zeros((ROWS, 8), "float32")
    for execution in ("dense", "sparse", "auto"):
        mixture = make_mixture(execution, 8, 2)
        (output,) = mixture(x, gate_inputs=weights)
        np.testing.assert_array_equal(to_numpy(output), np.zeros((ROWS, UNITS)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("num_tasks", [1, 2])
@pytest.mark.parametrize("extra", [0, 1, 8])
def test_auto_is_exact_at_the_budgets_edge_and_beyond(
    extra: int, num_tasks: int, x: np.ndarray
) -> None:
    n, k = 16, 2
    weights = np.stack([balanced(ROWS, n, k)] * num_tasks)
    pairs = ROWS * k * num_tasks
    budget = pairs + -(-pairs // PAIR_BUDGET_SLACK)
    empty = np.argwhere(weights == 0)[: budget - pairs + extra]
    weights[tuple(empty.T)] = 0.3
    assert (weights != 0).sum() == budget + extra
    expected = results(make_mixture("dense", n, k, num_tasks), x, [*weights])
    actual = results(make_mixture("auto", n, k, num_tasks), x, [*weights])
    assert_agree(expected, actual, weights)


def test_auto_is_exact_where_every_row_exceeds_k(x: np.ndarray) -> None:
    weights = dense(ROWS, 16, 2)
    expected = results(make_mixture("dense", 16, 2), x, [weights])
    actual = results(make_mixture("auto", 16, 2), x, [weights])
    for one, other in zip(expected, actual, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


def test_sparse_keeps_the_k_largest_with_the_same_sum(x: np.ndarray) -> None:
    weights = np.tile(
        np.array([[0.1, 0.5, 0.0, 0.3, 0.1]], "float32"), (ROWS, 1)
    )
    kept = np.tile(
        np.array([[0.0, 0.625, 0.0, 0.375, 0.0]], "float32"), (ROWS, 1)
    )
    (sparse,) = make_mixture("sparse", 5, 2)(x, gate_inputs=weights)
    (expected,) = make_mixture("dense", 5, 2)(x, gate_inputs=kept)
    np.testing.assert_allclose(
        to_numpy(sparse), to_numpy(expected), rtol=1e-4, atol=1e-6
    )


class CountingExperts(MLPExperts):
    """Notes how many rows it computes."""

    computed = 0

    def call(
        self,
        inputs: object,
        group_sizes: object = None,
        training: bool | None = None,
    ) -> object:
        if group_sizes is None:
            self.computed += inputs.shape[0] * self.num_experts
        else:
            self.computed += int(to_numpy(group_sizes).sum())
        return super().call(inputs, group_sizes, training)


MOST = 5 * ROWS


@pytest.fixture
def most_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of up to `MOST` pairs pay: more than fit the budget of `k`."""
    name = "keras_moe.layers.execution.most_pairs_that_pay"
    monkeypatch.setattr(name, lambda *_: MOST)


def with_pairs(count: int, num_tasks: int, rng: np.random.Generator) -> Results:
    """Weights of 16 experts for each task, so many of which are not zero."""
    weights = np.zeros((num_tasks, ROWS, 16), "float32")
    places = rng.permutation(weights.size)[:count]
    weights.flat[places] = rng.uniform(0.1, 1.0, count)
    return [*weights]


@pytest.mark.skipif(
    keras.backend.backend() == "jax",
    reason="shapes are static, and both ways are traced",
)
@pytest.mark.eager
@pytest.mark.usefixtures("most_pairs")
@pytest.mark.parametrize("num_tasks", [1, 2])
@pytest.mark.parametrize(
    ("count", "sparse"),
    [(0, True), (MOST, True), (MOST + 1, False), (16 * ROWS, False)],
)
def test_auto_runs_as_many_pairs_as_pay(
    count: int,
    sparse: bool,
    num_tasks: int,
    x: np.ndarray,
    rng: np.random.Generator,
) -> None:
    weights = with_pairs(count, num_tasks, rng)
    expected = results(make_mixture("dense", 16, 2, num_tasks), x, weights)
    mixture = make_mixture("auto", 16, 2, num_tasks)
    actual = results(mixture, x, weights)
    assert_agree(expected, actual, weights)
    experts = CountingExperts(16, UNITS)
    gates = [GivenGate(16, k=2) for _ in weights]
    MMoE(gates, experts)(x, gate_inputs=weights)
    wanted = int(np.any(np.stack(weights) != 0, axis=0).sum())
    assert experts.computed == (wanted if sparse else 16 * ROWS)


@pytest.mark.usefixtures("most_pairs")
@given(
    count=st.integers(0, 16 * ROWS),
    num_tasks=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
@examples(30)
def test_auto_is_exact_for_any_number_of_pairs(
    count: int, num_tasks: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, INPUTS)).astype("float32")
    weights = with_pairs(count, num_tasks, rng)
    expected = results(make_mixture("dense", 16, 2, num_tasks), x, weights)
    actual = results(make_mixture("auto", 16, 2, num_tasks), x, weights)
    assert_agree(expected, actual, weights)


@pytest.mark.usefixtures("most_pairs")
@pytest.mark.parametrize("count", [MOST - 32, MOST - 16, 16 * ROWS - 48])
def test_auto_keeps_nan_to_its_rows_for_any_number_of_pairs(
    count: int, x: np.ndarray, rng: np.random.Generator
) -> None:
    """A row of NaN alone, one NaN, a row without weights; others as dense."""
    (weights,) = with_pairs(count, 1, rng)
    weights[3], weights[7] = np.nan, 0.0
    weights[11, 5] = np.nan
    (expected,), (actual,) = (
        make_mixture(mode, 16, 2)(x, gate_inputs=weights)
        for mode in ("dense", "auto")
    )
    assert set(np.isnan(to_numpy(actual)).nonzero()[0]) == {3, 11}
    np.testing.assert_allclose(
        to_numpy(actual), to_numpy(expected), rtol=2e-4, atol=1e-5
    )


@functools.cache
def model_as_shipped(mode: str, n: int, width: int) -> keras.Model:
    """Predicts for all tests that follow; each batch size is compiled once."""
    inputs, weights = keras.Input((width,)), keras.Input((n,))
    mixture = MoE(GivenGate(n, k=2), MLPExperts(n, width, seed=0), mode)
    outputs = mixture(inputs, gate_inputs=weights)
    return keras.Model([inputs, weights], outputs)


@pytest.mark.parametrize("most", [2, 6, 16])
def test_auto_as_shipped_predicts_for_an_unknown_number_of_rows(
    most: int, rng: np.random.Generator
) -> None:
    width, n = 64, 16
    for rows in (1, 700):
        batch = [
            rng.normal(size=(rows, width)).astype("float32"),
            balanced(rows, n, most),
        ]
        auto, dense = (
            model_as_shipped(mode, n, width).predict(
                batch, batch_size=rows, verbose=0
            )
            for mode in ("auto", "dense")
        )
        np.testing.assert_allclose(auto, dense, rtol=1e-4, atol=1e-4)


@pytest.mark.eager
def test_a_single_row_costs_no_more_than_its_experts() -> None:
    experts = CountingExperts(16, 2)
    mixture = MoE(GivenGate(16, k=2, bounded=True), experts)
    mixture(np.ones((1, 3), "float32"), gate_inputs=balanced(1, 16, 2))
    assert experts.computed == 2


@pytest.mark.eager
@pytest.mark.sampled(2)
@pytest.mark.parametrize("num_tasks", [1, 3])
def test_sparse_computes_an_expert_once_a_row(num_tasks: int) -> None:
    rows, n, k = 512, 16, 2
    experts = CountingExperts(n, 2)
    gates = [GivenGate(n, k=k, bounded=True) for _ in range(num_tasks)]
    mixture = MMoE(gates, experts)
    weights = balanced(rows, n, k)
    mixture(np.ones((rows, 3), "float32"), gate_inputs=[weights] * num_tasks)
    assert experts.computed == rows * k  # However many tasks: they agree.


def test_auto_is_dense_with_a_dense_gate() -> None:
    experts = CountingExperts(4, 2)
    MoE(SoftmaxGate(4), experts)(np.ones((8, 3), "float32"))
    assert experts.computed == 8 * 4


def experts_with_dropout(as_list: bool) -> Experts:
    if not as_list:
        return MLPExperts(2, 4, dropout=0.5, seed=0)
    layers = [
        [keras.layers.Dense(4), keras.layers.Dropout(0.5)] for _ in range(2)
    ]
    return LayerExperts([keras.Sequential(expert) for expert in layers])


@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="PyTorch compiles nothing here"
)
@pytest.mark.sampled(2)  # PyTorch has none: half of them here, half there.
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("as_list", [False, True])
def test_dropout_trains_in_compiled_branches(
    as_list: bool, jit_compile: bool, x: np.ndarray
) -> None:
    inputs = keras.Input((INPUTS,))
    weights = keras.Input((2,))
    experts = experts_with_dropout(as_list)
    output = MoE(GivenGate(2, k=1), experts)(inputs, gate_inputs=weights)
    model = keras.Model([inputs, weights], output)
    model.compile("sgd", "mse", jit_compile=jit_compile)
    before = [to_numpy(state) for state in random_states(experts)]
    history = model.fit(
        [x, balanced(ROWS, 2, 1)], np.ones((ROWS, 4)), verbose=0
    )
    assert np.isfinite(history.history["loss"]).all()
    for state, start in zip(random_states(experts), before, strict=True):
        assert (to_numpy(state) != start).any()


@pytest.mark.parametrize("as_list", [False, True])
def test_gradients_of_a_dense_batch_have_the_dropout_of_its_outputs(
    as_list: bool, x: np.ndarray
) -> None:
    """JAX computes the experts again for them."""

    def trained(execution: str) -> list[np.ndarray]:
        keras.utils.set_random_seed(0)
        inputs = keras.Input((INPUTS,))
        weights = keras.Input((2,))
        mixture = MoE(
            GivenGate(2, k=1), experts_with_dropout(as_list), execution
        )
        model = keras.Model(
            [inputs, weights], mixture(inputs, gate_inputs=weights)
        )
        model.compile(keras.optimizers.SGD(0.1), "mse")
        # Each row has both experts, which is more than the gate's k.
        rows = [x, balanced(ROWS, 2, 2)]
        model.fit(rows, np.ones((ROWS, 4)), verbose=0, shuffle=False)
        return [to_numpy(weight) for weight in model.trainable_weights]

    for found, wanted in zip(trained("auto"), trained("dense"), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="XLA under TensorFlow"
)
@pytest.mark.parametrize("as_list", [False, True])
def test_another_batch_is_not_compiled_anew(
    as_list: bool, x: np.ndarray
) -> None:
    import tensorflow as tf

    experts = MLPExperts(3, 4)
    if as_list:
        experts = [keras.layers.Dense(4) for _ in range(3)]
    mixture = MoE(TopKGate(3, k=2), experts, execution="sparse")
    mixture.build(x.shape)

    @tf.function(jit_compile=True)
    def gradients(inputs: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(mixture(inputs) ** 2)
        return tape.gradient(loss, inputs)

    inputs = tf.constant(x)
    program = gradients.experimental_get_compiler_ir(inputs)(stage="hlo")
    # What XLA needs to know while it compiles becomes a constant.
    rows, features = x.shape
    assert f"f32[{rows},{features}]{{1,0}} parameter(" in program
