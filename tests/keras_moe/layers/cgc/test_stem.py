from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy
from scipy.special import softmax

from keras_moe.layers import PLE
from keras_moe.layers import STEM
from keras_moe.layers import Gate
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from tests.gradients import gradient
from tests.gradients import weight_gradient
from tests.keras_moe.layers.cgc.small_cgc import ROWS
from tests.keras_moe.layers.cgc.small_cgc import UNITS
from tests.keras_moe.layers.cgc.small_cgc import assert_all_close
from tests.keras_moe.layers.cgc.small_cgc import experts
from tests.keras_moe.layers.cgc.small_cgc import logits
from tests.keras_moe.layers.cgc.small_cgc import run_experts
from tests.keras_moe.layers.layer_test import check_layer

STREAMS = ("a", "b", "shared")


def small_stem(
    inner: bool = False, execution: str = "auto", k: int | None = None
) -> STEM:
    """Two shared experts, two of a, one of b."""

    def gate(seed: int) -> Gate:
        if k is None:
            return SoftmaxGate(5, seed=seed)
        return TopKGate(5, k=k, seed=seed)

    return STEM(
        {"a": gate(0), "b": gate(1)},
        experts(2, seed=2),
        {"a": experts(2, seed=3), "b": experts(1, seed=4)},
        gate(5) if inner else None,
        execution,
    )


@pytest.fixture
def streams(x: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {n: rng.normal(size=x.shape).astype("float32") for n in STREAMS}


def reference(layer: STEM, streams: dict[str, np.ndarray]) -> dict[str, Any]:
    banks = {"shared": layer.shared_experts, **layer.task_experts}
    every = np.concatenate(
        [run_experts(bank, streams[name]) for name, bank in banks.items()],
        axis=1,
    )
    seen = {
        task: (gate, streams[task] + streams["shared"])
        for task, gate in layer.gates.items()
    }
    if layer.shared_gate is not None:
        seen["shared"] = layer.shared_gate, streams["shared"]
    return {
        name: np.einsum("ne,neh->nh", softmax(logits(gate, x), axis=-1), every)
        for name, (gate, x) in seen.items()
    }


def test_two_levels_compute_what_the_paper_says(
    streams: dict[str, np.ndarray],
) -> None:
    levels = [small_stem(inner=True), small_stem()]
    outputs = PLE(levels)(streams)
    for level in levels:
        streams = reference(level, streams)
    assert_all_close([*outputs.values()], [streams["a"], streams["b"]])


@pytest.mark.traced_once("tensorflow")
@pytest.mark.usefixtures("sparse_pays")
@pytest.mark.parametrize("execution", ["dense", "sparse"])
def test_a_loss_changes_no_other_tasks_experts_and_inputs(
    execution: str, streams: dict[str, np.ndarray]
) -> None:
    layer = small_stem(execution=execution, k=4)
    layer.build({name: x.shape for name, x in streams.items()})

    def loss(*arrays: Any) -> Any:
        outputs = layer(dict(zip(STREAMS, arrays, strict=True)))
        unused = 0.0 * ops.sum(outputs["b"])  # PyTorch wants a gradient.
        return ops.sum(ops.square(outputs["a"])) + unused

    arrays = [streams[name] for name in STREAMS]
    assert [g.any() for g in gradient(loss, *arrays)] == [True, False, True]
    variables = [
        layer.task_experts["a"].kernels[0],
        layer.task_experts["b"].kernels[0],
        layer.shared_experts.kernels[0],
        layer.gates["a"].kernel,
    ]
    depends = [
        g.any() for g in weight_gradient(lambda: loss(*arrays), variables)
    ]
    assert depends == [True, False, True, True]
    # Its gate is trained by the other task's expert as well, the last.
    of_gate = weight_gradient(lambda: loss(*arrays), variables[3:])[0]
    assert of_gate[:, -1].any()


@pytest.mark.usefixtures("sparse_pays")
def test_executions_agree_on_gradients(streams: dict[str, np.ndarray]) -> None:
    def gradients(execution: str) -> list[np.ndarray]:
        layer = small_stem(True, execution, k=2)
        layer.build({name: x.shape for name, x in streams.items()})
        return weight_gradient(
            lambda: sum(
                ops.sum(ops.square(y)) for y in layer(streams).values()
            ),
            layer.trainable_variables,
        )

    expected = gradients("dense")
    for execution in ("auto", "sparse"):
        assert_all_close(gradients(execution), expected)


def test_through_the_shared_stream_all_experts_are_trained(
    streams: dict[str, np.ndarray],
) -> None:
    layer = small_stem(inner=True)
    layer.build({name: x.shape for name, x in streams.items()})
    kernels = [bank.kernels[0] for bank in layer.task_experts.values()]
    grads = weight_gradient(
        lambda: ops.sum(ops.square(layer(streams)["shared"])), kernels
    )
    assert all(grad.any() for grad in grads)


def test_it_is_a_proper_layer(tmp_path: Path, x: np.ndarray) -> None:
    check_layer(
        lambda: small_stem(inner=True),
        x,
        folder=tmp_path,
        output_shape=dict.fromkeys(("a", "b", "shared"), (ROWS, UNITS)),
        trainable_weights=12,
    )


def test_one_tensor_serves_all_streams(x: np.ndarray) -> None:
    layer = small_stem()
    outputs = layer(x)
    same = layer(dict.fromkeys(STREAMS, x))
    for task, y in outputs.items():
        np.testing.assert_array_equal(to_numpy(y), to_numpy(same[task]))
