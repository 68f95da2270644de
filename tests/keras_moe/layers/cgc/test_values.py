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
from keras_moe.layers import HashGate
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from keras_moe.layers import record_routing
from tests.gradients import weight_gradient
from tests.keras_moe.layers.cgc.small_cgc import ROWS
from tests.keras_moe.layers.cgc.small_cgc import UNITS
from tests.keras_moe.layers.cgc.small_cgc import assert_all_close
from tests.keras_moe.layers.cgc.small_cgc import logits
from tests.keras_moe.layers.cgc.small_cgc import run_experts
from tests.keras_moe.layers.cgc.small_cgc import small_cgc
from tests.keras_moe.layers.given_gate import GivenGate


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


@pytest.mark.once("torch")
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
