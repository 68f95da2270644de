"""Self gates, and experts of groups of tasks: the options of HoME's levels."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy
from scipy.special import softmax

from keras_moe.layers import CGC
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from keras_moe.layers import record_routing
from tests.keras_moe.layers.cgc.small_cgc import ROWS
from tests.keras_moe.layers.cgc.small_cgc import UNITS
from tests.keras_moe.layers.cgc.small_cgc import assert_all_close
from tests.keras_moe.layers.cgc.small_cgc import experts
from tests.keras_moe.layers.cgc.small_cgc import logits
from tests.keras_moe.layers.cgc.small_cgc import run_experts
from tests.keras_moe.layers.cgc.small_cgc import small_cgc
from tests.keras_moe.layers.layer_test import check_layer


def grouped(**kwargs: Any) -> CGC:
    """Tasks a and b of the group g, c of h; two experts of each kind."""
    arguments: dict[str, Any] = {
        "gates": {t: SoftmaxGate(6, seed=i) for i, t in enumerate("abc")},
        "shared_experts": experts(2, seed=3),
        "task_experts": {t: experts(2, seed=4) for t in "abc"},
        "self_gates": {t: SoftmaxGate(2, seed=5) for t in "ac"},
        "group_experts": {g: experts(2, seed=6) for g in "gh"},
        "task_groups": {"a": "g", "b": "g", "c": "h"},
    }
    return CGC(**{**arguments, **kwargs})


def test_a_self_gate_adds_a_tasks_own_experts(x: np.ndarray) -> None:
    layer = small_cgc(self_gates={"a": SoftmaxGate(2, seed=7)})
    without = small_cgc()
    outputs = layer(x)
    expected = {name: to_numpy(y) for name, y in without(x).items()}
    own = run_experts(layer.task_experts["a"], x)
    weights = softmax(logits(layer.self_gates["a"], x), axis=-1)
    expected["a"] = expected["a"] + np.einsum("ne,neh->nh", weights, own)
    assert_all_close([*outputs.values()], [*expected.values()])


def test_a_gate_weighs_shared_group_and_own_experts(
    x: np.ndarray, rng: np.random.Generator
) -> None:
    streams = {
        name: rng.normal(size=x.shape).astype("float32")
        for name in ("shared", *"ghabc")
    }
    layer = grouped()
    outputs = layer(streams)
    assert list(outputs) == ["a", "b", "c"]
    for task, group in layer.task_groups.items():
        own = run_experts(layer.task_experts[task], streams[task])
        seen = [
            run_experts(layer.shared_experts, streams["shared"]),
            run_experts(layer.group_experts[group], streams[group]),
            own,
        ]
        weights = softmax(logits(layer.gates[task], streams[task]), axis=-1)
        y = np.einsum("ne,neh->nh", weights, np.concatenate(seen, axis=1))
        if task in layer.self_gates:
            gate = layer.self_gates[task]
            weights = softmax(logits(gate, streams[task]), axis=-1)
            y += np.einsum("ne,neh->nh", weights, own)
        np.testing.assert_allclose(to_numpy(outputs[task]), y, atol=1e-5)


@pytest.mark.usefixtures("sparse_pays")
def test_executions_agree(x: np.ndarray) -> None:
    def outputs(execution: str) -> list[np.ndarray]:
        layer = grouped(
            gates={t: TopKGate(6, k=2, seed=i) for i, t in enumerate("abc")},
            self_gates={t: TopKGate(2, k=1, seed=5) for t in "abc"},
            execution=execution,
        )
        return [to_numpy(y) for y in layer(x).values()]

    expected = outputs("dense")
    for execution in ("auto", "sparse"):
        assert_all_close(outputs(execution), expected)


def test_it_is_a_proper_layer(tmp_path: Path, x: np.ndarray) -> None:
    check_layer(
        grouped,
        x,
        folder=tmp_path,
        output_shape=dict.fromkeys("abc", (ROWS, UNITS)),
        # Of 3 gates, 2 self gates and 6 banks.
        trainable_weights=2 * (3 + 2 + 6),
    )


def test_records_are_of_the_gates_alone(x: np.ndarray) -> None:
    with record_routing() as records:
        grouped()(x)
    (record,) = records
    assert {t: w.shape[-1] for t, w in record.weights.items()} == {
        "a": 6,
        "b": 6,
        "c": 6,
    }


def test_without_the_options_a_configuration_is_as_it_was() -> None:
    assert not {"self_gates", "group_experts", "task_groups"} & set(
        small_cgc().get_config()
    )


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (
            {"self_gates": {"d": SoftmaxGate(2)}},
            ValueError,
            "`self_gates` must have entries among ['a', 'b', 'c']",
        ),
        ({"self_gates": {"a": 3}}, TypeError, "`self_gates` must be a keras_m"),
        ({"self_gates": [1]}, TypeError, "`self_gates` must be a dict"),
        (
            {"self_gates": {"a": SoftmaxGate(3)}},
            ValueError,
            "The self gate of 'a' must weigh 2 experts: [2] of ['a']",
        ),
        (
            {"task_groups": {"a": "g", "b": "h"}},
            ValueError,
            "`task_groups` must give each task one of the groups",
        ),
        ({"group_experts": None}, ValueError, "`task_groups` must give each"),
        (
            {"group_experts": {"a": experts(2), "h": experts(2)}},
            ValueError,
            "`group_experts` must not have a group called like a task",
        ),
        ({"task_groups": ["g"]}, TypeError, "`task_groups` must be a dict"),
    ],
)
def test_wrong_arguments_are_named(
    wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        grouped(**wrong)
    assert "Received: " in str(caught.value)


def test_a_gate_may_look_at_something_else(x: np.ndarray) -> None:
    """So does the task's self gate."""
    seen = {"a": x[:, ::-1].copy()}
    layer = small_cgc(self_gates={"a": SoftmaxGate(2, seed=7)})
    outputs = layer(x, gate_inputs=seen)
    own = run_experts(layer.task_experts["a"], x)
    weights = softmax(logits(layer.self_gates["a"], seen["a"]), axis=-1)
    expected = to_numpy(small_cgc()(x, gate_inputs=seen)["a"])
    np.testing.assert_allclose(
        to_numpy(outputs["a"]),
        expected + np.einsum("ne,neh->nh", weights, own),
        atol=1e-5,
    )
