"""Balance by a bias on the selection, of every gate that has it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.callbacks.measure_routing import measure_routing
from keras_moe.callbacks.routing_model import RoutingModel
from keras_moe.layers import LogitGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import ScoredGate
from keras_moe.layers import SwitchGate
from keras_moe.layers import TopKGate
from keras_moe.layers import VMoEGate
from keras_moe.layers import XMoEGate
from keras_moe.layers import verify_gate
from keras_moe.metrics import load_balance
from keras_moe.types import Tensor
from tests.examples import examples
from tests.gradients import gradient
from tests.keras_moe.layers.gates.reference import build_with
from tests.keras_moe.layers.gates.reference import random_weights
from tests.keras_moe.layers.layer_test import check_layer

N, K, P, ROWS = 6, 2, 4, 12
RATE = 0.25

# Without noise, a call in training weighs as at inference.
MAKERS: dict[str, Callable[..., ScoredGate]] = {
    "top-k": lambda **kw: TopKGate(N, K, **kw),
    "sigmoid": lambda **kw: TopKGate(N, K, scores="sigmoid", **kw),
    "v-moe": lambda **kw: VMoEGate(N, K, noise_std=0.0, **kw),
    "switch": lambda **kw: SwitchGate(N, K, jitter=0.0, **kw),
    "x-moe": lambda **kw: XMoEGate(N, K, **kw),
}
each_gate = pytest.mark.parametrize("name", MAKERS)


def balanced(name: str, rng: np.random.Generator, **kwargs: Any) -> ScoredGate:
    """A gate with a bias, with random weights all over."""
    options = {"balance": "bias", "balance_rate": RATE, **kwargs}
    gate = MAKERS[name](**options)
    return build_with(gate, random_weights(gate, P, rng))


def with_all_experts(gate: ScoredGate) -> ScoredGate:
    """A gate with the same weights that leaves no expert out."""
    config = {**gate.get_config(), "k": N, "balance": None}
    dense = type(gate).from_config(config)
    dense.build((None, P))
    dense.set_weights(
        [w.numpy() for w in gate.weights if w is not gate.selection_bias]
    )
    return dense


def scores_of(name: str, gate: ScoredGate, x: np.ndarray) -> np.ndarray:
    if name != "sigmoid":
        return to_numpy(with_all_experts(gate)(x))
    logits = x @ to_numpy(gate.kernel) + to_numpy(gate.bias)
    return 1 / (1 + np.exp(-logits))


def chosen_by(scores: np.ndarray) -> np.ndarray:
    """The K largest of each row, ties by index."""
    order = np.argsort(-scores, axis=-1, kind="stable")[:, :K]
    chosen = np.zeros(scores.shape, bool)
    np.put_along_axis(chosen, order, True, axis=-1)
    return chosen


def rows(rng: np.random.Generator, number: int = ROWS) -> np.ndarray:
    return rng.normal(size=(number, P)).astype("float32")


@each_gate
def test_scores_with_the_bias_select_and_scores_alone_weigh(
    name: str, rng: np.random.Generator
) -> None:
    gate = balanced(name, rng)
    x = rows(rng)
    scores = scores_of(name, gate, x)

    @examples(20)
    @given(st.integers(0, 2**16))
    def check(seed: int) -> None:
        bias = np.random.default_rng(seed).normal(size=N).astype("float32")
        gate.selection_bias.assign(bias)
        chosen = chosen_by(scores + bias)
        expected = np.where(chosen, scores, 0)
        if name in ("top-k", "sigmoid"):
            expected /= expected.sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(to_numpy(gate(x)), expected, atol=1e-5)

    check()


@each_gate
def test_training_moves_the_bias_once_a_call_by_the_rows_that_count(
    name: str, rng: np.random.Generator
) -> None:
    gate = balanced(name, rng)
    x = rows(rng)
    x[3, 0] = float("nan")
    mask = np.arange(ROWS) % 5 > 0
    expected = to_numpy(gate.selection_bias)
    for _ in range(3):
        counted = np.flatnonzero(mask & ~np.isnan(x[:, 0]))
        scores = scores_of(name, gate, x[counted])
        loads = chosen_by(scores + expected).sum(axis=0)
        expected = expected + RATE * np.sign(loads.mean() - loads)
        gate(x, training=True, mask=mask)
        np.testing.assert_allclose(
            to_numpy(gate.selection_bias), expected, rtol=1e-6
        )
    gate(x)
    gate(x[:0], training=True)
    gate(x, training=True, mask=np.zeros(ROWS, bool))
    np.testing.assert_allclose(
        to_numpy(gate.selection_bias), expected, rtol=1e-6
    )


def test_a_rate_of_zero_keeps_the_bias(rng: np.random.Generator) -> None:
    gate = balanced("top-k", rng, balance_rate=0.0)
    before = to_numpy(gate.selection_bias).copy()
    gate(rows(rng), training=True)
    np.testing.assert_array_equal(to_numpy(gate.selection_bias), before)


@each_gate
def test_gradients_are_those_of_the_weights_with_the_selection_given(
    name: str, rng: np.random.Generator
) -> None:
    gate = balanced(name, rng)
    dense, x = with_all_experts(gate), rows(rng)
    towards = rng.normal(size=(ROWS, N)).astype("float32")
    chosen = (to_numpy(gate(x)) > 0).astype("float32")

    def expected(x: Tensor) -> Tensor:
        kept = keras.ops.multiply(dense(x), chosen)
        if gate.on_simplex:
            kept = kept / keras.ops.sum(kept, axis=-1, keepdims=True)
        return keras.ops.sum(keras.ops.multiply(kept, towards))

    def actual(x: Tensor) -> Tensor:
        weights = gate(x, training=True)
        return keras.ops.sum(keras.ops.multiply(weights, towards))

    np.testing.assert_allclose(
        gradient(actual, x)[0], gradient(expected, x)[0], rtol=1e-4, atol=1e-5
    )
    assert all(w is not gate.selection_bias for w in gate.trainable_weights)


@pytest.mark.usefixtures("sparse_pays")
@pytest.mark.sampled(2)
@each_gate
def test_sparse_execution_computes_the_same(
    name: str, rng: np.random.Generator
) -> None:
    experts = MLPExperts(N, [5, 3], seed=1)
    gate = balanced(name, rng)
    before, x = to_numpy(gate.selection_bias).copy(), rows(rng)
    outputs, biases = [], []
    for execution in ("dense", "sparse"):
        gate.selection_bias.assign(before)
        outputs.append(
            to_numpy(MoE(gate, experts, execution)(x, training=True))
        )
        biases.append(to_numpy(gate.selection_bias).copy())
    np.testing.assert_allclose(outputs[1], outputs[0], atol=1e-5)
    np.testing.assert_array_equal(biases[1], biases[0])
    assert (biases[0] != before).any()


# The others are built as one of these is.
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["top-k", "x-moe"])
def test_is_a_layer(
    name: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    check_layer(
        lambda: MAKERS[name](balance="bias", seed=1),
        rows(rng),
        folder=tmp_path,
        output_shape=(ROWS, N),
        trainable_weights=4 if name == "x-moe" else 2,
        non_trainable_weights=1,
        follows_policy=False,
    )


@pytest.mark.eager
@pytest.mark.sampled(2)
@each_gate
def test_is_what_its_attributes_say(
    name: str, rng: np.random.Generator
) -> None:
    verify_gate(balanced(name, rng), rows(rng, 40))


def test_the_bias_is_saved(rng: np.random.Generator, tmp_path: Path) -> None:
    x = rows(rng)
    inputs = keras.Input((P,))
    gate = TopKGate(N, K, balance="bias", balance_rate=RATE, name="gate")
    model = keras.Model(inputs, gate(inputs))
    for _ in range(3):
        model(x, training=True)
    assert to_numpy(gate.selection_bias).any()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    restored = loaded.get_layer("gate").selection_bias
    np.testing.assert_array_equal(
        to_numpy(restored), to_numpy(gate.selection_bias)
    )
    np.testing.assert_array_equal(to_numpy(loaded(x)), to_numpy(model(x)))


def trained_balance(scores: str, balance: str | None) -> float:
    """Load balance after a training that begins with two experts of eight."""
    rng = np.random.default_rng(1)
    x = rows(rng, 512)
    x[:, 0] += 2.0
    y = np.sin(x[:, :1] + x[:, 1:2])
    gate = TopKGate(
        8, K, seed=1, scores=scores, balance=balance, balance_rate=0.005
    )
    inputs = keras.Input((P,))
    experts = MLPExperts(8, [8, 1], seed=2)
    model = keras.Model(inputs, MoE(gate, experts, "dense")(inputs))
    # The first feature, which is positive nearly always, speaks for two.
    kernel = 0.5 * rng.normal(size=(P, 8))
    kernel[0, :2] += 1.0
    gate.kernel.assign(kernel)
    model.compile(keras.optimizers.SGD(0.01), "mse")
    model.fit(x, y, batch_size=128, epochs=25, shuffle=False, verbose=0)
    (routing,) = measure_routing(RoutingModel(model), [x]).values()
    return float(load_balance(routing["load_per_expert"]))


@pytest.mark.traced_once("jax")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("scores", ["softmax", "sigmoid"])
def test_training_evens_a_load_that_stays_uneven_without(scores: str) -> None:
    assert trained_balance(scores, None) < 0.6
    assert trained_balance(scores, "bias") > 0.8


class NewGate(ScoredGate, LogitGate):
    """A gate of one's own: one base class, one call."""

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        logits = self.compute_logits(inputs)
        return self.chosen_probabilities(logits, training, mask)


def test_a_new_gate_has_it_by_its_base_class(rng: np.random.Generator) -> None:
    gate = NewGate(N, K, balance="bias", balance_rate=RATE)
    gate(rows(rng), training=True)
    assert set(np.abs(to_numpy(gate.selection_bias))) <= {0.0, RATE}
    assert to_numpy(gate.selection_bias).any()
    assert gate.get_config()["balance"] == "bias"
    verify_gate(gate, rows(rng))


@pytest.mark.once("torch")
@each_gate
def test_without_a_balance_there_is_no_bias(name: str) -> None:
    gate = MAKERS[name]()
    gate.build((None, P))
    assert gate.selection_bias is None
    assert "selection_bias" not in [weight.name for weight in gate.weights]
    config = gate.get_config()
    for argument in ("balance", "balance_rate"):
        del config[argument]  # As saved before there was one.
    assert type(gate).from_config(config).get_config() == gate.get_config()


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"balance": "loss"},
            ValueError,
            "`balance` must be None or 'bias'. Received: balance='loss'",
        ),
        (
            {"balance": "bias", "balance_rate": -1},
            ValueError,
            "`balance_rate` must be a finite number, at least 0. "
            "Received: balance_rate=-1",
        ),
        ({"balance_rate": "x"}, TypeError, "`balance_rate` must be a number."),
    ],
)
def test_refuses_wrong_arguments(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    for make in MAKERS.values():
        with pytest.raises(error, match=message):
            make(**options)


@pytest.mark.once("torch")
def test_refuses_a_balance_of_one_selection_for_all() -> None:
    with pytest.raises(
        ValueError,
        match=r"`balance` must be None for a static gate.*Received: "
        r"balance='bias'",
    ):
        TopKGate(N, K, static=True, balance="bias")
