import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy
from scipy.special import softmax

from keras_moe.callbacks import RoutingModel
from keras_moe.callbacks import load_heat_map
from keras_moe.callbacks import measure_routing
from keras_moe.layers import CGC
from keras_moe.layers import COMETGate
from keras_moe.layers import ExpertChoiceGate
from keras_moe.layers import HashGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import PermutedGate
from keras_moe.layers import SinkhornPermutation
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from keras_moe.layers import record_routing
from keras_moe.ops.keep_largest import keep_largest
from tests.compiled import compiled
from tests.gradients import gradient_function
from tests.gradients import weight_gradient
from tests.keras_moe.layers.given_gate import GivenGate
from tests.keras_moe.layers.given_gate import balanced
from tests.keras_moe.layers.given_gate import dense
from tests.keras_moe.layers.given_gate import ragged
from tests.keras_moe.layers.given_gate import skewed
from tests.keras_moe.layers.layer_test import check_fit
from tests.keras_moe.layers.layer_test import check_layer

MASK = np.array([[True, True, False], [False, True, True]])
ROWS, INPUTS, UNITS = 17, 5, 3


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(ROWS, INPUTS)).astype("float32")


def experts(count: int, seed: int = 0) -> MLPExperts:
    """Experts without a zero in their outputs, as ReLU would have."""
    return MLPExperts(
        count,
        UNITS,
        activation="tanh",
        bias_initializer="random_normal",
        seed=seed,
    )


def small_cgc(**kwargs: Any) -> CGC:
    """Two shared experts, two of task a, one of task b."""
    arguments = {
        "gates": {"a": TopKGate(4, k=2, seed=0), "b": SoftmaxGate(3, seed=1)},
        "shared_experts": experts(2, seed=2),
        "task_experts": {"a": experts(2, seed=3), "b": experts(1, seed=4)},
    }
    return CGC(**{**arguments, **kwargs})


# What each output's gate weighs: 8 shared experts, 4 of a and 6 of b.
NUM_EXPERTS = {"a": 12, "b": 14, "shared": 18}
BOUNDS = {"a": 2, "b": 1, "shared": 1}


def given_cgc(execution: str, bounded: bool = False) -> CGC:
    """Its gate inputs are the weights; auto is dense for a, else sparse."""
    gates = {
        name: GivenGate(NUM_EXPERTS[name], k=k, bounded=bounded)
        for name, k in BOUNDS.items()
    }
    layer = CGC(
        shared_gate=gates.pop("shared"),
        gates=gates,
        shared_experts=experts(8, seed=0),
        task_experts={"a": experts(4, seed=1), "b": experts(6, seed=2)},
        execution=execution,
    )
    layer.build((None, INPUTS), {n: (None, e) for n, e in NUM_EXPERTS.items()})
    return layer


def given_weights(pattern: Any) -> dict[str, np.ndarray]:
    return {
        name: pattern(ROWS, NUM_EXPERTS[name], k) for name, k in BOUNDS.items()
    }


def outputs_of(
    layer: CGC, x: np.ndarray, weights: dict[str, np.ndarray]
) -> list[np.ndarray]:
    """Outputs in the order of the weights."""

    def call(x: object, *arrays: object) -> list[object]:
        gate_inputs = dict(zip(weights, arrays, strict=True))
        outputs = layer(x, gate_inputs=gate_inputs)
        return [outputs[name] for name in weights]

    return compiled(call)(x, *weights.values())


def gradients_of(
    layer: CGC, x: np.ndarray, weights: dict[str, np.ndarray]
) -> list[np.ndarray]:
    """Gradients for experts, inputs and weights, where there are any."""

    def loss(x: object, *arrays: object) -> object:
        gate_inputs = dict(zip(weights, arrays, strict=True))
        outputs = layer(x, gate_inputs=gate_inputs)
        return sum(
            factor * ops.sum(ops.square(outputs[name]))
            for factor, name in enumerate(weights, start=1)
        )

    variables = layer.trainable_variables
    values = [variable.value for variable in variables]
    arrays = list(weights.values())
    slopes = gradient_function(loss, variables)(*values, x, *arrays)
    others, of_weights = slopes[: -len(arrays)], slopes[-len(arrays) :]
    # Sparse execution does not compute what weighs nothing.
    return [
        *others,
        *(g * (w != 0) for g, w in zip(of_weights, arrays, strict=True)),
    ]


def assert_all_close(actual: Any, expected: Any) -> None:
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


def run_experts(bank: MLPExperts, x: np.ndarray) -> np.ndarray:
    kernel, bias = to_numpy(bank.kernels[0]), to_numpy(bank.biases[0])
    return np.tanh(np.einsum("nd,edh->neh", x, kernel) + bias)


def logits(gate: SoftmaxGate | TopKGate, x: np.ndarray) -> np.ndarray:
    return x @ to_numpy(gate.kernel) + to_numpy(gate.bias)


def test_one_row_by_hand() -> None:
    def constant(value: float) -> keras.layers.Layer:
        return keras.layers.Lambda(
            lambda x: value + 0 * x[:, :1], output_shape=(1,)
        )

    layer = CGC(
        {"a": GivenGate(3), "b": GivenGate(2)},
        shared_experts=[constant(1.0)],
        task_experts={
            "a": [constant(10.0), constant(100.0)],
            "b": [constant(1000.0)],
        },
        shared_gate=GivenGate(4),
    )
    outputs = layer(
        np.zeros((1, 1)),
        gate_inputs={
            "a": np.array([[0.5, 0.3, 0.2]]),
            "b": np.array([[0.9, 0.1]]),
            "shared": np.array([[0.1, 0.2, 0.3, 0.4]]),
        },
    )
    values = {name: float(output[0, 0]) for name, output in outputs.items()}
    # 0.5 + 3 + 20; 0.9 + 100; 0.1 + 2 + 30 + 400.
    assert values == pytest.approx({"a": 23.5, "b": 100.9, "shared": 432.1})


def test_it_computes_what_the_paper_says(x: np.ndarray) -> None:
    layer = small_cgc(shared_gate=SoftmaxGate(5, seed=5))
    outputs = layer(x)
    shared = run_experts(layer.shared_experts, x)
    own = {t: run_experts(e, x) for t, e in layer.task_experts.items()}
    top = logits(layer.gates["a"], x)
    top[top < np.sort(top)[:, -2:-1]] = -np.inf
    expected = {
        "a": (softmax(top, axis=-1), [shared, own["a"]]),
        "b": (
            softmax(logits(layer.gates["b"], x), axis=-1),
            [shared, own["b"]],
        ),
        "shared": (
            softmax(logits(layer.shared_gate, x), axis=-1),
            [shared, own["a"], own["b"]],
        ),
    }
    assert list(outputs) == ["a", "b", "shared"]
    for name, (weights, seen) in expected.items():
        y = np.einsum("ne,neh->nh", weights, np.concatenate(seen, axis=1))
        np.testing.assert_allclose(to_numpy(outputs[name]), y, atol=1e-5)


def test_every_part_computes_on_its_own_stream(
    x: np.ndarray, rng: np.random.Generator
) -> None:
    streams = {
        name: rng.normal(size=x.shape).astype("float32")
        for name in ("shared", "b", "a")
    }
    layer = small_cgc()
    outputs = layer(streams)
    shared = run_experts(layer.shared_experts, streams["shared"])
    own = run_experts(layer.task_experts["b"], streams["b"])
    weights = softmax(logits(layer.gates["b"], streams["b"]), axis=-1)
    seen = np.concatenate([shared, own], axis=1)
    np.testing.assert_allclose(
        to_numpy(outputs["b"]),
        np.einsum("ne,neh->nh", weights, seen),
        atol=1e-5,
    )


def test_a_task_has_nothing_of_the_others_experts(x: np.ndarray) -> None:
    layer = small_cgc()
    layer.build(x.shape)

    def loss() -> object:
        outputs = layer(x)
        return ops.sum(outputs["a"]) + 0.0 * ops.sum(outputs["b"])

    variables = [
        layer.task_experts["a"].kernels[0],
        layer.shared_experts.kernels[0],
        layer.task_experts["b"].kernels[0],
        layer.gates["b"].kernel,
    ]
    depends = [g.any() for g in weight_gradient(loss, variables)]
    assert depends == [True, True, False, False]


@pytest.mark.parametrize(
    ("pattern", "bounded"),
    [(balanced, False), (ragged, False), (skewed, True)],
)
def test_all_executions_agree(
    pattern: Any, bounded: bool, x: np.ndarray
) -> None:
    weights = given_weights(pattern)
    expected = gradients_of(given_cgc("dense"), x, weights)
    for execution in ("sparse", "auto"):
        actual = gradients_of(given_cgc(execution, bounded), x, weights)
        assert_all_close(actual, expected)


@pytest.mark.parametrize("chosen", [slice(0, 2), slice(8, 10)])
def test_nothing_is_dropped_where_all_rows_choose_the_same_group(
    chosen: slice, x: np.ndarray
) -> None:
    weights = given_weights(balanced)
    for name, k in BOUNDS.items():
        weights[name][:] = 0
        weights[name][:, chosen][:, :k] = 1 / k
    expected = outputs_of(given_cgc("dense"), x, weights)
    for execution in ("sparse", "auto"):
        actual = outputs_of(given_cgc(execution, bounded=True), x, weights)
        assert_all_close(actual, expected)


def test_auto_is_exact_where_every_row_exceeds_k(x: np.ndarray) -> None:
    weights = given_weights(dense)
    assert_all_close(
        gradients_of(given_cgc("auto"), x, weights),
        gradients_of(given_cgc("dense"), x, weights),
    )


def test_sparse_limits_a_gate_on_the_whole_not_in_each_group(
    x: np.ndarray,
) -> None:
    weights = given_weights(dense)
    kept = {
        name: to_numpy(keep_largest(array, BOUNDS[name]))
        for name, array in weights.items()
    }
    expected = outputs_of(given_cgc("dense"), x, kept)
    actual = outputs_of(given_cgc("sparse"), x, weights)
    assert_all_close(actual, expected)


@pytest.mark.parametrize("rows", [0, 1])
def test_executions_agree_on_batches_of_no_row_and_one(
    rows: int, x: np.ndarray
) -> None:
    weights = {n: w[:rows] for n, w in given_weights(balanced).items()}
    expected = outputs_of(given_cgc("dense"), x[:rows], weights)
    actual = outputs_of(given_cgc("auto", bounded=True), x[:rows], weights)
    assert actual[0].shape == (rows, UNITS)
    assert_all_close(actual, expected)


def gated_cgc(execution: str, make_gate: Any) -> CGC:
    layer = CGC(
        {"a": make_gate(12, seed=0), "b": make_gate(12, seed=1)},
        shared_experts=experts(8, seed=2),
        task_experts={"a": experts(4, seed=3), "b": experts(4, seed=4)},
        execution=execution,
    )
    layer.build((None, INPUTS))
    return layer


@pytest.mark.parametrize(
    ("hard_rows", "execution"), [(4, "auto"), (ROWS, "auto"), (ROWS, "sparse")]
)
def test_executions_agree_on_soft_and_hard_rows(
    hard_rows: int, execution: str, x: np.ndarray
) -> None:
    x[:hard_rows] *= 1e4  # Far outside of where a decision is soft.

    def gradients(execution: str) -> list[np.ndarray]:
        layer = gated_cgc(execution, lambda n, seed: COMETGate(n, 2, seed=seed))
        return weight_gradient(
            lambda: sum(ops.sum(ops.square(y)) for y in layer(x).values()),
            layer.trainable_variables,
        )

    expected, actual = gradients("dense"), gradients(execution)
    scales = [max(np.abs(slope).max(), 1.0) for slope in expected]
    assert_all_close(
        [slope / scale for slope, scale in zip(actual, scales, strict=True)],
        [slope / scale for slope, scale in zip(expected, scales, strict=True)],
    )


def test_executions_agree_where_experts_choose(x: np.ndarray) -> None:
    def outputs(execution: str) -> list[np.ndarray]:
        layer = gated_cgc(
            execution, lambda n, seed: ExpertChoiceGate(n, seed=seed)
        )
        call = compiled(lambda x: list(layer(x, training=True).values()))
        return call(x)

    expected = outputs("dense")
    for execution in ("auto", "sparse"):
        assert_all_close(outputs(execution), expected)


def test_a_gate_may_look_at_something_else(x: np.ndarray) -> None:
    ids = np.arange(ROWS)
    gates = {"a": HashGate(4, num_buckets=9), "b": TopKGate(3, k=1, seed=1)}
    outputs = [
        small_cgc(gates=gates, execution=execution)(x, gate_inputs={"a": ids})
        for execution in ("dense", "sparse", "auto")
    ]
    layer = small_cgc(gates=gates)
    layer(x, gate_inputs={"a": ids})
    seen = [layer.shared_experts, layer.task_experts["a"]]
    every = np.concatenate([run_experts(bank, x) for bank in seen], axis=1)
    chosen = to_numpy(gates["a"].table)[ids % 9]
    for output in outputs:
        np.testing.assert_allclose(
            to_numpy(output["a"]), every[ids, chosen], atol=1e-5
        )
        assert_all_close([to_numpy(output["b"])], [to_numpy(outputs[0]["b"])])


def test_experts_may_be_layers_and_a_gate_static(x: np.ndarray) -> None:
    def dense_layers(count: int) -> list[keras.layers.Layer]:
        return [keras.layers.Dense(UNITS) for _ in range(count)]

    layer = CGC(
        {"a": TopKGate(3, k=1, static=True), "b": TopKGate(3, k=1)},
        dense_layers(2),
        {"a": dense_layers(1), "b": dense_layers(1)},
        execution="sparse",
    )
    outputs = layer(x)
    assert {task: tuple(y.shape) for task, y in outputs.items()} == {
        "a": (ROWS, UNITS),
        "b": (ROWS, UNITS),
    }


def test_masked_rows_get_nothing(rng: np.random.Generator) -> None:
    tokens = rng.normal(size=(2, 3, INPUTS)).astype("float32")
    for execution in ("dense", "sparse", "auto"):
        gates = {"a": TopKGate(4, k=1), "b": TopKGate(3, k=1, static=True)}
        outputs = small_cgc(gates=gates, execution=execution)(tokens, mask=MASK)
        for output in outputs.values():
            assert not to_numpy(output)[~MASK].any()
            assert to_numpy(output)[MASK].all()


def test_a_keras_mask_goes_on() -> None:
    ids = np.array([[3, 1, 0], [0, 2, 0]])
    embedding = keras.layers.Embedding(4, INPUTS, mask_zero=True)
    layer = small_cgc()
    with record_routing() as records:
        outputs = layer(embedding(ids))
    for task, output in outputs.items():
        mask = records[0].masks[task]
        np.testing.assert_array_equal(to_numpy(mask), ids != 0)
        pooled = keras.layers.GlobalAveragePooling1D()(output)
        np.testing.assert_allclose(
            to_numpy(pooled)[1], to_numpy(output)[1, 1], rtol=1e-5
        )


def test_every_stream_has_its_own_mask(rng: np.random.Generator) -> None:
    tokens = rng.normal(size=(2, 3, INPUTS)).astype("float32")
    streams = dict.fromkeys(["a", "b", "shared"], tokens)
    outputs = small_cgc()(streams, mask={"a": MASK, "b": ~MASK, "shared": None})
    for task, mask in (("a", MASK), ("b", ~MASK)):
        assert not to_numpy(outputs[task])[~mask].any()
        assert to_numpy(outputs[task])[mask].all()


def test_routing_is_recorded_with_all_the_experts_of_a_gate(
    x: np.ndarray,
) -> None:
    layer = small_cgc(shared_gate=SoftmaxGate(5))
    with record_routing() as records:
        layer(x)
    (record,) = records
    assert record.mixture is layer
    shapes = {task: tuple(w.shape) for task, w in record.weights.items()}
    assert shapes == {"a": (ROWS, 4), "b": (ROWS, 3), "shared": (ROWS, 5)}


def test_routing_is_measured_where_tasks_differ_in_experts(
    x: np.ndarray,
) -> None:
    statistics = measure_routing(RoutingModel(small_cgc()), [x])
    counts = {
        task: values["experts_per_example"]
        for task, values in statistics.items()
    }
    assert counts == {"a": 2.0, "b": 3.0}
    figure = load_heat_map(
        {task: v["load_per_expert"] for task, v in statistics.items()}
    )
    assert figure.axes[0].images[0].get_array().shape == (2, 4)


def test_it_is_a_proper_layer(tmp_path: Path, x: np.ndarray) -> None:
    check_layer(
        lambda: small_cgc(shared_gate=SoftmaxGate(5)),
        x,
        folder=tmp_path,
        output_shape=dict.fromkeys(("a", "b", "shared"), (ROWS, UNITS)),
        trainable_weights=12,
    )


def test_it_trains_where_each_batch_decides_what_runs(x: np.ndarray) -> None:
    def make_layer() -> CGC:
        return CGC(
            {"a": COMETGate(14, k=2), "b": TopKGate(12, k=1)},
            MLPExperts(8, UNITS, dropout=0.5),
            {
                "a": MLPExperts(6, UNITS, dropout=0.5),
                "b": MLPExperts(4, UNITS, dropout=0.5),
            },
            TopKGate(18, k=1),
        )

    check_fit(make_layer, {"inputs": x})


def test_gates_share_a_permutation_after_loading(
    tmp_path: Path, x: np.ndarray
) -> None:
    permutation = SinkhornPermutation(3)
    gates = {
        task: PermutedGate(TopKGate(3, k=1), permutation) for task in ("a", "b")
    }
    task_experts = {"a": experts(1), "b": experts(1)}
    inputs = keras.Input((INPUTS,))
    layer = CGC(gates, experts(2), task_experts, name="cgc")
    model = keras.Model(inputs, layer(inputs))
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    gates = restored.get_layer("cgc").gates
    assert gates["a"].permutation is gates["b"].permutation
    outputs = restored.predict(x, verbose=0)
    for task, output in model.predict(x, verbose=0).items():
        np.testing.assert_allclose(outputs[task], output, atol=1e-6)


GATES = {"a": TopKGate(4, k=2), "b": TopKGate(3, k=2)}


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"gates": [TopKGate(4, k=2)]}, TypeError, "`gates` must be a dict"),
        ({"gates": {}}, ValueError, "`gates` must hold at least one gate"),
        ({"gates": {"a": "top-k"}}, TypeError, "must be a keras_moe Gate"),
        (
            {"gates": {"shared": TopKGate(4, k=2)}},
            ValueError,
            "`gates` must not have a task called 'shared'",
        ),
        (
            {"gates": {"a": TopKGate(4, k=2)}},
            ValueError,
            "`task_experts` must have the tasks of `gates`, ['a']",
        ),
        (
            {"task_experts": [experts(2), experts(1)]},
            TypeError,
            "`task_experts` must be a dict",
        ),
        (
            {"gates": {**GATES, "b": TopKGate(4, k=2)}},
            ValueError,
            "The gate of 'b' must weigh 3 experts: [2, 1] of ['shared', 'b']",
        ),
        (
            {"shared_gate": SoftmaxGate(4)},
            ValueError,
            "The gate of 'shared' must weigh 5 experts: [2, 2, 1]",
        ),
        ({"shared_gate": 5}, TypeError, "`shared_gate` must be a keras_moe"),
        ({"execution": "sparse"}, ValueError, "with a dense gate"),
        ({"execution": "fast"}, ValueError, "`execution` must be one of"),
    ],
)
def test_wrong_arguments_are_named(
    wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        small_cgc(**wrong)
    assert "Received: " in str(caught.value)


def test_no_expert_stands_in_two_groups() -> None:
    bank = experts(2)
    with pytest.raises(ValueError, match=r"must be different.*Received: "):
        small_cgc(
            shared_experts=bank, task_experts={"a": bank, "b": experts(1)}
        )


def test_outputs_must_share_one_shape(x: np.ndarray) -> None:
    layer = small_cgc(
        task_experts={"a": MLPExperts(2, 4), "b": MLPExperts(1, UNITS)}
    )
    with pytest.raises(ValueError, match=r"share one output shape. Received"):
        layer(x)


def test_inputs_must_name_the_tasks_and_what_they_share(x: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"`inputs` must be one tensor.*'b'"):
        small_cgc()({"a": x, "shared": x})


def test_gate_inputs_must_name_tasks(x: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"`gate_inputs` must be.*\['c'\]"):
        small_cgc()(x, gate_inputs={"c": x})
