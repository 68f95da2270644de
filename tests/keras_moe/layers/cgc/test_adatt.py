import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy
from scipy.special import softmax

from keras_moe.layers import PLE
from keras_moe.layers import AdaTT
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from keras_moe.layers import record_routing
from tests.keras_moe.layers.cgc.small_cgc import INPUTS
from tests.keras_moe.layers.cgc.small_cgc import ROWS
from tests.keras_moe.layers.cgc.small_cgc import UNITS
from tests.keras_moe.layers.cgc.small_cgc import assert_all_close
from tests.keras_moe.layers.cgc.small_cgc import experts
from tests.keras_moe.layers.cgc.small_cgc import logits
from tests.keras_moe.layers.cgc.small_cgc import run_experts
from tests.keras_moe.layers.layer_test import check_layer


def small_adatt(shared: int = 2, inner: bool = False, **kwargs: Any) -> AdaTT:
    """Two native experts of a, one of b, beside shared ones."""
    every = shared + 3
    return AdaTT(
        {"a": SoftmaxGate(every, seed=0), "b": SoftmaxGate(every, seed=1)},
        experts(shared, seed=2) if shared else None,
        {"a": experts(2, seed=3), "b": experts(1, seed=4)},
        SoftmaxGate(every, seed=5) if inner and shared else None,
        **{"seed": 6, **kwargs},
    )


def reference(layer: AdaTT, streams: dict[str, np.ndarray]) -> dict[str, Any]:
    banks = dict(layer.task_experts)
    gates = dict(layer.gates)
    if layer.shared_experts is not None:
        banks = {"shared": layer.shared_experts, **banks}
    if layer.shared_gate is not None:
        gates["shared"] = layer.shared_gate
    own = {
        name: run_experts(bank, streams[name]) for name, bank in banks.items()
    }
    every = np.concatenate([*own.values()], axis=1)
    outputs = {}
    for name, gate in gates.items():
        weights = softmax(logits(gate, streams[name]), axis=-1)
        fused = np.einsum("ne,neh->nh", weights, every)
        native = np.ones(1)
        if banks[name].num_experts > 1:
            native = to_numpy(layer.self_gates[name].values)
        outputs[name] = fused + np.einsum("e,neh->nh", native, own[name])
    return outputs


@pytest.mark.parametrize("shared", [0, 2])
def test_two_levels_compute_what_the_paper_says(
    shared: int, x: np.ndarray
) -> None:
    levels = [small_adatt(shared, inner=True), small_adatt(shared)]
    outputs = PLE(levels)(x)
    streams = dict.fromkeys(["a", "b", "shared"], x)
    for level in levels:
        streams = reference(level, streams)
    assert list(outputs) == ["a", "b"]
    assert_all_close([*outputs.values()], [streams["a"], streams["b"]])


def test_native_weights_begin_within_their_bound_and_apart() -> None:
    layer = AdaTT(
        {task: SoftmaxGate(8, seed=0) for task in "ab"},
        None,
        {task: experts(4, seed=1) for task in "ab"},
    )
    layer.build((None, INPUTS))
    a, b = (to_numpy(layer.self_gates[task].values) for task in "ab")
    assert np.abs([a, b]).max() <= 0.5
    assert (a != b).all()


@pytest.mark.usefixtures("sparse_pays")
def test_shared_experts_run_sparsely_with_sparse_gates(x: np.ndarray) -> None:
    def outputs(execution: str) -> list[np.ndarray]:
        layer = AdaTT(
            {"a": TopKGate(9, k=1, seed=0), "b": TopKGate(9, k=1, seed=1)},
            experts(6, seed=2),
            {"a": experts(2, seed=3), "b": experts(1, seed=4)},
            execution=execution,
            seed=0,
        )
        return [to_numpy(y) for y in layer(x).values()]

    assert_all_close(outputs("auto"), outputs("dense"))


def test_it_is_a_proper_layer(tmp_path: Path, x: np.ndarray) -> None:
    check_layer(
        lambda: small_adatt(inner=True),
        x,
        folder=tmp_path,
        output_shape=dict.fromkeys(("a", "b", "shared"), (ROWS, UNITS)),
        # Three gates and three banks; the native weights of a and of shared.
        trainable_weights=2 * 3 + 2 * 3 + 2,
    )


def test_records_are_of_the_gates_alone(x: np.ndarray) -> None:
    with record_routing() as records:
        small_adatt(0)(x)
    shapes = {t: tuple(w.shape) for t, w in records[0].weights.items()}
    assert shapes == {"a": (ROWS, 3), "b": (ROWS, 3)}


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: small_adatt(execution="sparse"),
            "`execution` must be 'dense'",
        ),
        (
            lambda: small_adatt(self_gates={"a": SoftmaxGate(2)}),
            "`self_gates` must be left out of an AdaTT",
        ),
        (
            lambda: PLE([small_adatt(0), small_adatt(2)]),
            "All of `levels` but the last must have a shared gate",
        ),
    ],
)
def test_wrong_arguments_are_named(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        make()
    assert "Received: " in str(caught.value)
