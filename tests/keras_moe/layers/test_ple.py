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
from keras_moe.callbacks import measure_routing
from keras_moe.layers import CGC
from keras_moe.layers import PLE
from keras_moe.layers import Gate
from keras_moe.layers import HashGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from tests.gradients import weight_gradient
from tests.keras_moe.layers.layer_test import check_layer

MASK = np.array([[True, True, False], [False, True, True]])
ROWS, INPUTS, UNITS = 6, 5, 3
TASKS = ("a", "b")


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(ROWS, INPUTS)).astype("float32")


def experts(count: int) -> MLPExperts:
    """Experts without a zero in their outputs, as ReLU would have."""
    return MLPExperts(count, UNITS, activation="tanh")


def level(
    shared_gate: Gate | None = None,
    tasks: tuple[str, ...] = TASKS,
    **gates: Gate,
) -> CGC:
    """Two shared experts, and two of each task."""
    return CGC(
        {task: gates.get(task) or SoftmaxGate(4) for task in tasks},
        experts(2),
        {task: experts(2) for task in tasks},
        shared_gate,
    )


def two_levels() -> PLE:
    return PLE([level(SoftmaxGate(6)), level()])


def parts(layer: PLE) -> dict[str, Any]:
    """One weight of every gate and every bank of experts, by name."""
    weights = {}
    for number, cgc in enumerate(layer.levels, start=1):
        gates = dict(cgc.gates)
        banks = {"shared": cgc.shared_experts, **cgc.task_experts}
        if cgc.shared_gate is not None:
            gates["shared"] = cgc.shared_gate
        for name, gate in gates.items():
            weights[f"gate {name} {number}"] = gate.kernel
        for name, bank in banks.items():
            weights[f"experts {name} {number}"] = bank.kernels[0]
    return weights


def on_what_it_depends(layer: PLE, task: str, x: np.ndarray) -> set[str]:
    """The parts that an output has a gradient for."""
    layer.build(x.shape)

    def loss() -> object:
        outputs = layer(x)
        # A gradient of zero, not none, for what belongs to the other task.
        return ops.sum(outputs[task]) + 0.0 * sum(
            map(ops.sum, outputs.values())
        )

    weights = parts(layer)
    gradients = weight_gradient(loss, list(weights.values()))
    return {
        name
        for name, grad in zip(weights, gradients, strict=True)
        if grad.any()
    }


@pytest.mark.parametrize(("task", "other"), [("a", "b"), ("b", "a")])
def test_tasks_meet_in_the_shared_stream_alone(
    task: str, other: str, x: np.ndarray
) -> None:
    assert on_what_it_depends(two_levels(), task, x) == {
        "experts shared 1",
        f"experts {task} 1",
        f"experts {other} 1",  # By the shared gate.
        f"gate {task} 1",
        "gate shared 1",
        "experts shared 2",
        f"experts {task} 2",
        f"gate {task} 2",
    }


def test_on_one_level_they_share_the_shared_experts(x: np.ndarray) -> None:
    assert on_what_it_depends(PLE([level()]), "a", x) == {
        "experts shared 1",
        "experts a 1",
        "gate a 1",
    }


def test_each_stream_feeds_its_own_experts_and_gate(x: np.ndarray) -> None:
    first, last = level(SoftmaxGate(6)), level()
    outputs = PLE([first, last])(x)
    streams = first(x)
    assert set(streams) == {*TASKS, "shared"}
    expected = last(streams)
    for task in TASKS:
        np.testing.assert_allclose(
            to_numpy(outputs[task]), to_numpy(expected[task]), rtol=1e-5
        )
    # Another stream of b leaves a alone; another shared one does not.
    changed = last({**streams, "b": 2 * streams["b"]})
    np.testing.assert_array_equal(
        to_numpy(changed["a"]), to_numpy(expected["a"])
    )
    changed = last({**streams, "shared": 2 * streams["shared"]})
    assert (to_numpy(changed["a"]) != to_numpy(expected["a"])).any()


def reference_level(cgc: CGC, z: dict[str, np.ndarray]) -> dict[str, Any]:
    """The equations of section 4 of the paper, with shared experts first."""
    banks = {"shared": cgc.shared_experts, **cgc.task_experts}
    outputs = {
        name: np.tanh(
            np.einsum("nd,edh->neh", z[name], to_numpy(bank.kernels[0]))
            + to_numpy(bank.biases[0])
        )
        for name, bank in banks.items()
    }
    gates = {**cgc.gates, "shared": cgc.shared_gate}
    seen = {task: ["shared", task] for task in TASKS}
    seen["shared"] = ["shared", *TASKS]
    return {
        name: np.einsum(
            "ne,neh->nh",
            softmax(
                z[name] @ to_numpy(gate.kernel) + to_numpy(gate.bias), axis=-1
            ),
            np.concatenate([outputs[group] for group in seen[name]], axis=1),
        )
        for name, gate in gates.items()
        if gate is not None
    }


def test_it_computes_what_the_paper_says(x: np.ndarray) -> None:
    layer = PLE([level(SoftmaxGate(6)), level(SoftmaxGate(6)), level()])
    outputs = layer(x)
    z = dict.fromkeys([*TASKS, "shared"], x)
    for cgc in layer.levels:
        z = reference_level(cgc, z)
    assert list(outputs) == list(TASKS)
    for task in TASKS:
        np.testing.assert_allclose(to_numpy(outputs[task]), z[task], atol=1e-5)


@pytest.mark.traced_once("tensorflow")
@pytest.mark.usefixtures("sparse_pays")
@pytest.mark.parametrize("execution", ["sparse", "auto"])
def test_levels_may_run_sparse(execution: str, x: np.ndarray) -> None:
    def make(execution: str) -> PLE:
        def sparse_level(seed: int, shared_gate: Gate | None) -> CGC:
            banks = [
                MLPExperts(8, UNITS, activation="tanh", seed=seed + i)
                for i in range(3)
            ]
            gates = {
                task: TopKGate(16, k=2, seed=seed + i)
                for i, task in enumerate(TASKS)
            }
            return CGC(
                gates,
                banks[0],
                dict(zip(TASKS, banks[1:], strict=True)),
                shared_gate,
                execution,
            )

        shared_gate = TopKGate(24, k=2, seed=9)
        return PLE([sparse_level(0, shared_gate), sparse_level(10, None)])

    expected, actual = make("dense")(x), make(execution)(x)
    for task in TASKS:
        np.testing.assert_allclose(
            to_numpy(actual[task]), to_numpy(expected[task]), atol=1e-5
        )


def test_gate_inputs_reach_every_level(x: np.ndarray) -> None:
    gates = [HashGate(4, num_buckets=9, seed=seed) for seed in (0, 1)]
    first, last = level(SoftmaxGate(6), a=gates[0]), level(a=gates[1])
    ids = {"a": np.arange(ROWS)}
    outputs = PLE([first, last])(x, gate_inputs=ids)
    expected = last(first(x, gate_inputs=ids), gate_inputs=ids)
    for task in TASKS:
        np.testing.assert_allclose(
            to_numpy(outputs[task]), to_numpy(expected[task]), rtol=1e-5
        )


def test_a_mask_goes_through_all_levels(rng: np.random.Generator) -> None:
    tokens = rng.normal(size=(2, 3, INPUTS)).astype("float32")
    for output in two_levels()(tokens, mask=MASK).values():
        assert not to_numpy(output)[~MASK].any()
        assert to_numpy(output)[MASK].all()


def test_a_keras_mask_reaches_the_layers_after_it() -> None:
    ids = np.array([[3, 1, 0], [0, 2, 0]])
    inputs = keras.Input((3,), dtype="int32")
    embedded = keras.layers.Embedding(4, INPUTS, mask_zero=True)(inputs)
    outputs = two_levels()(embedded)
    pool = keras.layers.GlobalAveragePooling1D()
    model = keras.Model(
        inputs, [outputs, {task: pool(y) for task, y in outputs.items()}]
    )
    outputs, pooled = model.predict(ids, verbose=0)
    for task in TASKS:
        np.testing.assert_allclose(
            pooled[task][1], outputs[task][1, 1], rtol=1e-5
        )


@pytest.mark.once("torch")
def test_routing_is_measured_level_by_level(x: np.ndarray) -> None:
    first, last = level(TopKGate(6, k=1), a=TopKGate(4, k=2)), level()
    statistics = measure_routing(RoutingModel(PLE([first, last])), [x])
    counts = {
        task: values["experts_per_example"]
        for task, values in statistics.items()
    }
    assert counts == {
        f"{first.name}_a": 2.0,
        f"{first.name}_b": 4.0,
        f"{first.name}_shared": 1.0,
        f"{last.name}_a": 4.0,
        f"{last.name}_b": 4.0,
    }


def test_it_is_a_proper_layer(tmp_path: Path, x: np.ndarray) -> None:
    check_layer(
        lambda: PLE([level(SoftmaxGate(6), a=TopKGate(4, k=2)), level()]),
        x,
        folder=tmp_path,
        output_shape=dict.fromkeys(TASKS, (ROWS, UNITS)),
        trainable_weights=22,
        large=True,
    )


def test_its_outputs_have_its_own_dtype(x: np.ndarray) -> None:
    outputs = PLE([level()], dtype="mixed_bfloat16")(x)
    dtype = keras.backend.standardize_dtype(outputs["a"].dtype)
    assert dtype == "bfloat16"


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("levels", "error", "message"),
    [
        ("cgc", TypeError, "`levels` must be a list of CGC layers"),
        ([SoftmaxGate(4)], TypeError, "`levels` must be a list of CGC layers"),
        ([], ValueError, "`levels` must hold at least one CGC layer"),
        (
            [level(SoftmaxGate(4), tasks=("a",)), level()],
            ValueError,
            "must have the same tasks. Received: tasks [['a'], ['a', 'b']]",
        ),
        (
            [level(), level()],
            ValueError,
            "Received: levels with a shared gate: [False, False]",
        ),
        (
            [level(SoftmaxGate(6))],
            ValueError,
            "Received: levels with a shared gate: [True]",
        ),
    ],
)
def test_wrong_levels_are_named(
    levels: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        PLE(levels)
    assert "Received: " in str(caught.value)


@pytest.mark.once("torch")
def test_no_level_stands_twice() -> None:
    first = level(SoftmaxGate(6))
    with pytest.raises(ValueError, match=r"different layers. Received: "):
        PLE([first, first, level()])
