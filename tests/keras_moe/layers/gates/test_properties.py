"""What all gates have in common."""

import functools

import keras
import numpy as np
import pytest
from hypothesis import Phase
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from keras.ops import convert_to_numpy as to_numpy

from keras_moe import layers
from keras_moe.layers.gates.gate import ROUTER_LOSSES
from tests.examples import Drawn
from tests.examples import examples
from tests.gradients import gradient_function
from tests.keras_moe.layers.gates import registry
from tests.keras_moe.layers.gates.registry import GATES
from tests.keras_moe.layers.gates.registry import build_gate
from tests.keras_moe.layers.gates.registry import make_inputs

few = settings(
    examples(10),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)


# By name, for tests that change nothing but what training counts.
shared_gate = functools.cache(build_gate)


def evaluate(gate, inputs, **kwargs):
    return to_numpy(gate(inputs, **kwargs))


def features(bound):
    """Batches of features, zeros and repetitions among them."""
    return hnp.arrays(
        "float32",
        (6, registry.NUM_FEATURES),
        elements=st.floats(-bound, bound, width=32),
    )


def inputs_of(gate):
    if gate.feature_rank == 0:
        return hnp.arrays("int32", (6,), elements=st.integers(-100, 100))
    return features(bound=10)


def test_every_gate_is_tested():
    exported = {
        value
        for value in vars(layers).values()
        if isinstance(value, type) and issubclass(value, layers.Gate)
    }
    tested = {type(make()) for make in GATES.values()}
    bases = {layers.Gate, layers.LogitGate, layers.ScoredGate}
    # A ConstantGate has nothing of what these tests look at.
    assert exported - bases - {layers.ConstantGate} == tested


@pytest.mark.parametrize("name", GATES)
def test_dense_gates_give_every_expert_weight(name, rng):
    gate = shared_gate(name)
    inputs = make_inputs(gate, rng)
    if gate.always_dense:
        assert (evaluate(gate, inputs, training=False) > 0).all()
    if gate.dense_in_training:
        assert (evaluate(gate, inputs, training=True) > 0).all()
    # What is always dense is so in training, too, and never sparse.
    assert gate.dense_in_training or not gate.always_dense
    assert not (gate.dense_in_training and gate.always_sparse)


@pytest.mark.parametrize("name", GATES)
def test_what_the_seed_fixes_has_nothing_to_train(name):
    gate = shared_gate(name)
    assert gate.fixed_by_seed == (not gate.trainable_weights)


@pytest.mark.parametrize("name", GATES)
def test_the_loss_that_balances_is_one_of_the_routers(name):
    balance = GATES[name]().balance_loss
    assert balance is None or balance in ROUTER_LOSSES


@pytest.mark.eager
@pytest.mark.parametrize("name", GATES)
def test_every_gate_is_what_its_attributes_say(name, rng):
    gate = build_gate(name)
    layers.verify_gate(gate, make_inputs(gate, rng, leading=(40,)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", registry.ON_SIMPLEX)
def test_weights_lie_on_the_simplex(name, training):
    gate = shared_gate(name)

    @few
    @given(inputs=inputs_of(gate))
    def check(inputs):
        weights = evaluate(gate, inputs, training=training)
        assert weights.dtype == "float32"
        assert (weights >= 0).all()
        np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-5)

    check()


@pytest.mark.parametrize("name", registry.AT_MOST_K)
def test_at_most_k_experts_have_weight(name):
    gate = shared_gate(name)

    @few
    @given(seed=st.integers(0, 2**16))
    def check(seed):
        inputs = make_inputs(gate, np.random.default_rng(seed))
        weights = evaluate(gate, inputs)
        assert (np.count_nonzero(weights, axis=-1) <= gate.k).all()

    check()


@pytest.mark.parametrize("k", [1, 2, 5])
def test_top_k_selects_exactly_k_whatever_the_ties(k):
    gate = layers.TopKGate(5, k=k, use_bias=False)
    gate.build((None, 5))
    gate.kernel.assign(np.eye(5))

    @few
    @given(hnp.arrays("float32", (6, 5), elements=st.sampled_from([-1, 0])))
    def check(logits):
        assert (np.count_nonzero(evaluate(gate, logits), axis=-1) == k).all()

    check()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", registry.PER_EXAMPLE)
def test_weights_do_not_depend_on_the_batch(name):
    gate = shared_gate(name)

    @few
    @given(inputs=inputs_of(gate), row=st.integers(0, 5))
    def check(inputs, row):
        np.testing.assert_allclose(
            evaluate(gate, inputs)[row],
            evaluate(gate, inputs[row : row + 1])[0],
            rtol=1e-4,
            atol=1e-6,
        )

    check()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", registry.PER_EXAMPLE)
def test_tokens_are_routed_like_examples(name, rng):
    gate = shared_gate(name)
    tokens = make_inputs(gate, rng, leading=(2, 3))
    weights = evaluate(gate, tokens)
    assert weights.shape == (2, 3, registry.NUM_EXPERTS)
    examples = tokens.reshape(6, *tokens.shape[2:])
    np.testing.assert_allclose(
        weights.reshape(6, -1), evaluate(gate, examples), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", ["softmax", "top-k"])
def test_permuted_experts_have_permuted_weights(name, rng):
    gate = build_gate(name, bias_initializer="random_normal")
    inputs = make_inputs(gate, rng)
    weights = evaluate(gate, inputs)
    kernel, bias = to_numpy(gate.kernel), to_numpy(gate.bias)

    @few
    @given(order=st.permutations(range(registry.NUM_EXPERTS)))
    def check(order):
        gate.kernel.assign(kernel[:, order])
        gate.bias.assign(bias[order])
        np.testing.assert_allclose(
            evaluate(gate, inputs), weights[:, order], rtol=1e-5
        )

    check()


@pytest.mark.parametrize("name", registry.ON_FEATURES)
def test_large_inputs_give_finite_weights_and_gradients(name):
    gate = shared_gate(name)

    def first_weights(x):
        return keras.ops.sum(gate(x, training=True)[..., 0])

    weights = [weight.value for weight in gate.trainable_weights]
    gradients = gradient_function(first_weights, gate.trainable_weights)

    @few
    @given(inputs=features(bound=1e4))
    def check(inputs):
        assert np.isfinite(evaluate(gate, inputs)).all()
        assert np.isfinite(gradients(*weights, inputs)[-1]).all()

    check()
    largest = np.full((6, registry.NUM_FEATURES), 1e4, "float32")
    largest[3:, ::2] *= -1
    for grad in gradients(*weights, largest):
        assert np.isfinite(grad).all()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", registry.ON_FEATURES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_inputs_of_any_float_type_are_weighed_in_float32(name, dtype, rng):
    gate = build_gate(name, dtype=dtype)
    inputs = keras.ops.cast(make_inputs(gate, rng), dtype)
    weights = gate(inputs)
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    np.testing.assert_array_equal(
        to_numpy(weights),
        evaluate(gate, keras.ops.cast(inputs, "float32")),
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", GATES)
def test_the_same_seed_gives_the_same_weights(name):
    assert_all_equal(build_gate(name, seed=3), build_gate(name, seed=3))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", registry.COUNTING)
def test_another_seed_gives_other_weights(name):
    assert_never_equal(build_gate(name, seed=3), build_gate(name, seed=4))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", registry.TRAINED)
def test_two_gates_are_never_initialized_alike(name):
    assert_never_equal(build_gate(name), build_gate(name))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("name", registry.TRAINED)
def test_not_even_with_a_shared_initializer(name, seed):
    shared = initializers_of(name, keras.initializers.RandomUniform(seed=seed))
    gate = build_gate(name, **shared)
    assert_never_equal(gate, build_gate(name, **shared))
    heads = [tuple(to_numpy(w).ravel()[:2]) for w in gate.trainable_weights]
    assert len(set(heads)) == len(heads)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", registry.TRAINED)
def test_an_equal_seeded_initializer_gives_the_same_weights(name):
    first, second = (
        initializers_of(name, keras.initializers.RandomUniform(seed=7))
        for _ in range(2)
    )
    assert_all_equal(build_gate(name, **first), build_gate(name, **second))


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="only TensorFlow traces with unknown dimensions",
)
@pytest.mark.parametrize(
    ("name", "jit_compile"),
    [
        (name, jit_compile)
        for number, name in enumerate(GATES)
        for jit_compile in (False, True)
        if not Drawn.few or jit_compile == number % 2
    ],
)
def test_traces_with_unknown_leading_dimensions(name, jit_compile, rng):
    import tensorflow as tf

    gate = build_gate(name, seed=1)
    tokens = make_inputs(gate, rng, leading=(2, 3))
    expected = evaluate(gate, tokens)
    unknown = tf.TensorSpec((None, None, *tokens.shape[2:]), tokens.dtype)
    weigh = tf.function(
        lambda x: gate(x, training=False),
        input_signature=[unknown],
        jit_compile=jit_compile,
    )
    np.testing.assert_allclose(weigh(tokens), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", registry.PER_EXAMPLE)
def test_a_batch_may_be_empty(name, rng):
    gate = GATES[name]()
    weights = gate(make_inputs(gate, rng, leading=(0,)), training=True)
    assert tuple(weights.shape) == (0, registry.NUM_EXPERTS)
    assert all(to_numpy(loss) == 0.0 for loss in gate.losses)


@pytest.mark.once("torch")
@pytest.mark.parametrize("name", registry.COUNTING)
@pytest.mark.parametrize("num_experts", [1, 0, -2])
def test_refuses_too_few_experts(name, num_experts):
    config = {**GATES[name]().get_config(), "num_experts": num_experts}
    with pytest.raises(
        ValueError,
        match=rf"`num_experts` must be at least 2. Received: "
        rf"num_experts={num_experts}",
    ):
        type(GATES[name]())(**config)


@pytest.mark.once("torch")
@pytest.mark.parametrize("name", registry.COUNTING)
@pytest.mark.parametrize("num_experts", [4.0, "4", None, True])
def test_refuses_a_number_of_experts_that_is_no_integer(name, num_experts):
    config = {**GATES[name]().get_config(), "num_experts": num_experts}
    with pytest.raises(
        TypeError, match=r"`num_experts` must be an integer. Received: "
    ):
        type(GATES[name]())(**config)


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    "make", [layers.TopKGate, layers.DSelectKGate, layers.COMETGate]
)
@pytest.mark.parametrize(
    ("k", "error", "message"),
    [
        (0, ValueError, r"`k` must be at least 1. Received: k=0"),
        (6, ValueError, r"`k` must be between 1 and 5. Received: k=6"),
        (2.0, TypeError, r"`k` must be an integer. Received: k=2.0"),
        (None, TypeError, r"`k` must be an integer. Received: k=None"),
    ],
)
def test_refuses_another_k(make, k, error, message):
    with pytest.raises(error, match=message):
        make(5, k=k)


def initializers_of(name, initializer):
    """Arguments that initialize all weights of a gate in the same way."""
    return {
        argument: initializer
        for argument in GATES[name]().get_config()
        if argument.endswith("_initializer")
    }


def assert_all_equal(first, second):
    for one, other in zip(first.weights, second.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other))


def assert_never_equal(first, second):
    """No weight that is drawn at all has the same values in both."""
    for one, other in zip(first.weights, second.weights, strict=True):
        if np.ptp(to_numpy(one)) > 0:
            assert (to_numpy(one) != to_numpy(other)).any()


@pytest.mark.once("torch")
@pytest.mark.parametrize("option", ROUTER_LOSSES)
def test_gates_without_logits_refuse_router_losses(option):
    for make in (
        lambda **kw: layers.HashGate(4, num_buckets=9, **kw),
        lambda **kw: layers.PermutedGate(layers.TopKGate(4, k=2), **kw),
    ):
        with pytest.raises(ValueError, match=f"`{option}` must be 0"):
            make(**{option: 0.1})
