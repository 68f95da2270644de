import re
from pathlib import Path

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import DSelectKGate
from keras_moe.layers import HashGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from keras_moe.layers import record_routing
from tests.keras_moe.layers.given_gate import GivenGate
from tests.keras_moe.layers.layer_test import check_layer


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(6, 5)).astype("float32")


@pytest.mark.eager
def test_each_task_gets_what_its_own_mixture_would_give(x: np.ndarray) -> None:
    experts = MLPExperts(4, 3, seed=0)
    gates = {"watch": TopKGate(4, k=2, seed=1), "rating": SoftmaxGate(4)}
    outputs = MMoE(gates, experts)(x)
    assert list(outputs) == ["watch", "rating"]
    for task, gate in gates.items():
        expected = to_numpy(MoE(gate, experts, execution="dense")(x))
        np.testing.assert_allclose(
            to_numpy(outputs[task]), expected, rtol=1e-4, atol=1e-6
        )


def test_a_list_of_gates_makes_a_list(x: np.ndarray) -> None:
    mixture = MMoE([TopKGate(4, k=1), TopKGate(4, k=2)], MLPExperts(4, 3))
    outputs = mixture(x)
    assert isinstance(outputs, list)
    assert [tuple(output.shape) for output in outputs] == [(6, 3), (6, 3)]


def test_gate_inputs_may_differ_by_task(x: np.ndarray) -> None:
    mixture = MMoE(
        {"a": HashGate(4, num_buckets=9, seed=0), "b": GivenGate(4)},
        MLPExperts(4, 3, seed=0),
    )
    ids = np.arange(6)
    weights = np.eye(4, dtype="float32")[[0, 1, 2, 3, 0, 1]]
    outputs = mixture(x, gate_inputs={"b": weights, "a": ids})
    every = to_numpy(mixture.experts(x))
    np.testing.assert_allclose(
        to_numpy(outputs["b"]),
        every[np.arange(6), [0, 1, 2, 3, 0, 1]],
        rtol=1e-5,
    )
    chosen = np.argmax(to_numpy(mixture.gates["a"](ids)), axis=-1)
    np.testing.assert_allclose(
        to_numpy(outputs["a"]), every[np.arange(6), chosen], rtol=1e-5
    )


def test_names_do_not_need_to_be_in_order(x: np.ndarray) -> None:
    mixture = MMoE(
        {"z": GivenGate(2), "a": GivenGate(2)}, MLPExperts(2, 3, seed=0)
    )
    first = np.tile(np.array([[1.0, 0.0]], "float32"), (6, 1))
    second = np.tile(np.array([[0.0, 1.0]], "float32"), (6, 1))
    outputs = mixture(x, gate_inputs={"a": second, "z": first})
    every = to_numpy(mixture.experts(x))
    np.testing.assert_allclose(to_numpy(outputs["z"]), every[:, 0], rtol=1e-5)
    np.testing.assert_allclose(to_numpy(outputs["a"]), every[:, 1], rtol=1e-5)


@pytest.mark.eager
def test_routing_is_recorded_on_request_only(x: np.ndarray) -> None:
    mixture = MMoE(
        {"watch": TopKGate(4, k=2), "rating": TopKGate(4, k=1, static=True)},
        MLPExperts(4, 3),
    )
    with record_routing() as records:
        mixture(x)
    mixture(x)
    (record,) = records
    assert record.mixture is mixture
    weights = {task: to_numpy(w) for task, w in record.weights.items()}
    assert {task: w.shape for task, w in weights.items()} == {
        "watch": (6, 4),
        "rating": (6, 4),
    }
    assert ((weights["watch"] > 0).sum(axis=-1) == 2).all()


@pytest.mark.traced_once("tensorflow")
@pytest.mark.usefixtures("sparse_pays")
@pytest.mark.parametrize("execution", ["dense", "sparse"])
def test_a_mixture_among_the_experts_is_not_recorded(
    execution: str, x: np.ndarray
) -> None:
    inner = [MoE(TopKGate(2, k=1), MLPExperts(2, 3)) for _ in range(3)]
    outer = MoE(TopKGate(3, k=1), inner, execution=execution)
    with record_routing() as records:
        outer(x)
    assert [record.mixture for record in records] == [outer]


@pytest.mark.usefixtures("sparse_pays")
def test_it_is_a_proper_layer(tmp_path: Path, x: np.ndarray) -> None:
    check_layer(
        lambda: MMoE(
            {
                "watch": DSelectKGate(8, k=2, entropy_weight=0.1),
                "rating": TopKGate(8, k=1),
            },
            MLPExperts(8, [4, 3]),
        ),
        x,
        folder=tmp_path,
        output_shape={"watch": (6, 3), "rating": (6, 3)},
        trainable_weights=10,
        training_losses=1,
    )


def test_a_list_with_gate_inputs_is_a_proper_layer(
    tmp_path: Path, x: np.ndarray
) -> None:
    check_layer(
        lambda: MMoE([TopKGate(3, k=1), SoftmaxGate(3)], MLPExperts(3, 4)),
        x,
        gate_inputs=x[:, :2],
        folder=tmp_path,
        output_shape=[(6, 4), (6, 4)],
        trainable_weights=6,
    )


def test_it_works_in_a_functional_model(x: np.ndarray) -> None:
    inputs = keras.Input((5,))
    ids = keras.Input((), dtype="int32")
    mixture = MMoE(
        {"a": HashGate(4, num_buckets=9), "b": TopKGate(4, k=1)},
        MLPExperts(4, 3),
    )
    model = keras.Model(
        [inputs, ids], mixture(inputs, gate_inputs={"a": ids, "b": inputs})
    )
    outputs = model.predict([x, np.arange(6)], verbose=0)
    assert {task: y.shape for task, y in outputs.items()} == {
        "a": (6, 3),
        "b": (6, 3),
    }


@pytest.mark.parametrize(
    ("gates", "error", "message"),
    [
        (TopKGate(4, k=1), TypeError, "`gates` must be a dict of task name"),
        ({}, ValueError, "`gates` must hold at least one gate"),
        (["top-k"], TypeError, "`gates` must be a keras_moe Gate"),
        ({1: TopKGate(4, k=1)}, TypeError, "strings as keys"),
        (
            [TopKGate(4, k=1), TopKGate(5, k=1)],
            ValueError,
            "must agree on the number of experts",
        ),
    ],
)
def test_wrong_gates_are_named(
    gates: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        MMoE(gates, MLPExperts(4, 2))
    assert "Received: " in str(caught.value)


def test_gate_inputs_must_name_the_tasks(x: np.ndarray) -> None:
    mixture = MMoE({"a": TopKGate(4, k=1)}, MLPExperts(4, 2))
    with pytest.raises(ValueError, match="one entry per task"):
        mixture(x, gate_inputs={"b": x})


def test_gate_inputs_must_share_leading_dimensions(x: np.ndarray) -> None:
    mixture = MMoE([TopKGate(4, k=1), TopKGate(4, k=1)], MLPExperts(4, 2))
    with pytest.raises(ValueError, match="share their leading dimensions"):
        mixture(x, gate_inputs=[x, x[:, None]])
