"""Layers called with arguments of wrong kinds: each is refused by its name."""

import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from keras_moe.layers import CGC
from keras_moe.layers import PLE
from keras_moe.layers import STEM
from keras_moe.layers import AdaTT
from keras_moe.layers import ConditionallyOverlappingMLP
from keras_moe.layers import ConditionalMask
from keras_moe.layers import ConstantGate
from keras_moe.layers import HashGate
from keras_moe.layers import HoME
from keras_moe.layers import HoMEExperts
from keras_moe.layers import LayerExperts
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import PermutedGate
from keras_moe.layers import SinkhornPermutation
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import SoftMoE
from keras_moe.layers import TopKGate
from keras_moe.ops import grouped_matmul
from tests.keras_moe.layers.gates import registry

N, ROWS, WIDTH = 4, 2, 3


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, "float32")


def gates() -> dict[str, TopKGate]:
    return {"a": TopKGate(N, k=2), "b": TopKGate(N, k=1)}


def cgc() -> CGC:
    return CGC(
        gates(),
        shared_experts=MLPExperts(2, 3),
        task_experts={"a": MLPExperts(2, 3), "b": MLPExperts(2, 3)},
    )


def of_all_experts(kind: type[AdaTT | STEM]) -> AdaTT | STEM:
    """A level whose gates weigh the experts of all tasks."""
    return kind(
        {"a": TopKGate(6, k=2), "b": TopKGate(6, k=1)},
        shared_experts=MLPExperts(2, 3),
        task_experts={"a": MLPExperts(2, 3), "b": MLPExperts(2, 3)},
    )


def home() -> HoME:
    groups = CGC(
        {"g": TopKGate(N, k=2)},
        HoMEExperts(2, 3),
        {"g": HoMEExperts(2, 3)},
        TopKGate(N, k=1),
    )
    tasks = CGC(
        {"a": TopKGate(6, k=2), "b": TopKGate(6, k=1)},
        HoMEExperts(2, 3),
        {"a": HoMEExperts(2, 3), "b": HoMEExperts(2, 3)},
        group_experts={"g": HoMEExperts(2, 3)},
        task_groups={"a": "g", "b": "g"},
    )
    return HoME(groups, tasks)


def dense_layers() -> list[keras.layers.Layer]:
    return [keras.layers.Dense(3) for _ in range(N)]


LAYERS: dict[str, Callable[[], keras.layers.Layer]] = {
    **{name: make for name, make in registry.GATES.items() if name != "hash"},
    "constant": lambda: ConstantGate([0.5, 0.5]),
    "MLPExperts": lambda: MLPExperts(N, 3),
    "HoMEExperts": lambda: HoMEExperts(N, 3),
    "LayerExperts": lambda: LayerExperts(dense_layers()),
    "MoE": lambda: MoE(TopKGate(N, k=2), MLPExperts(N, 3)),
    "MoE of layers": lambda: MoE(TopKGate(N, k=2), dense_layers()),
    "MoE of a static gate": lambda: MoE(
        SoftmaxGate(N, static=True), MLPExperts(N, 3)
    ),
    "MMoE": lambda: MMoE(gates(), MLPExperts(N, 3)),
    "CGC": cgc,
    "PLE": lambda: PLE([cgc()]),
    "AdaTT": lambda: of_all_experts(AdaTT),
    "STEM": lambda: of_all_experts(STEM),
    "HoME": home,
    "SoftMoE": lambda: SoftMoE(MLPExperts(2, 3)),
    "ConditionallyOverlappingMLP": lambda: ConditionallyOverlappingMLP(
        [6, 3], keep_rate=0.5
    ),
    "SinkhornPermutation": lambda: SinkhornPermutation(N),
}

NO_TENSORS = [
    None,
    "x",
    {"x": 1.0},
    [[1.0, 2.0], [3.0]],
    3.0,
    np.array([["a", "b"]]),
    np.array([[None, 1]]),
    ones(ROWS, WIDTH).astype("complex64"),
]
# Of rank 1 there are the ids of a HashGate, and a static gate's weights.
TAKE_RANK_1 = ("SinkhornPermutation", "LayerExperts")


def assert_refused(name: str, call: Callable[[], Any]) -> None:
    """It is a TypeError or ValueError that names the argument."""
    with pytest.raises((TypeError, ValueError)) as error:
        call()
    message = str(error.value)
    assert re.search(rf"`[^`]*{re.escape(name)}\b.*`", message), message
    assert "Received:" in message


@pytest.mark.parametrize("name", LAYERS)
def test_inputs_are_a_tensor_of_numbers(name: str) -> None:
    layer = LAYERS[name]()
    for value in NO_TENSORS:
        assert_refused("inputs", lambda value=value: layer(value))
    assert_refused("inputs", layer)
    assert not layer.built
    if name not in TAKE_RANK_1:
        assert_refused("inputs", lambda: layer(ones(WIDTH)))


def test_ids_are_integers() -> None:
    gate = HashGate(N, num_buckets=9)
    for value in (*NO_TENSORS, ones(ROWS)):
        assert_refused("inputs", lambda value=value: gate(value))


@pytest.mark.parametrize("name", LAYERS)
def test_training_is_a_boolean(name: str) -> None:
    layer = LAYERS[name]()
    if "training" not in layer._names:
        return
    for value in ("yes", [True], 0.5, {"training": True}):
        assert_refused(
            "training",
            lambda value=value: layer(ones(ROWS, WIDTH), training=value),
        )


@pytest.mark.parametrize(
    "name",
    ["top-k", "MoE", "MMoE", "CGC", "PLE", "AdaTT", "STEM", "HoME", "SoftMoE"],
)
def test_a_mask_has_an_entry_a_row(name: str) -> None:
    inputs = ones(ROWS, N, WIDTH)
    for value in ("x", [True], 3, np.ones((ROWS, 5), bool), {"a": "x"}):
        layer = LAYERS[name]()
        assert_refused(
            "mask",
            lambda value=value, layer=layer: layer(inputs, mask=value),
        )


@pytest.mark.parametrize(
    "name", ["MoE", "MMoE", "CGC", "PLE", "AdaTT", "STEM", "HoME"]
)
def test_gate_inputs_fit_the_inputs(name: str) -> None:
    wrong = ["x", 3.0, [[1.0], [1.0, 2.0]], ones(ROWS + 1, WIDTH), ones(WIDTH)]
    wrong += [{"z": ones(ROWS, WIDTH)}, [ones(ROWS, WIDTH)], [None, None]]
    for value in wrong:
        layer = LAYERS[name]()
        assert_refused(
            "gate_inputs",
            lambda value=value, layer=layer: layer(
                ones(ROWS, WIDTH), gate_inputs=value
            ),
        )


def test_each_entry_of_several_is_named() -> None:
    layer = MMoE(gates(), MLPExperts(N, 3))
    with pytest.raises(TypeError, match=r"`gate_inputs\['b'\]` must be a tens"):
        layer(ones(2, 3), gate_inputs={"a": ones(2, 3), "b": "x"})
    with pytest.raises(TypeError, match=r"`inputs\['shared'\]`.*=None"):
        cgc()({"a": ones(2, 3), "b": ones(2, 3), "shared": None})


def test_a_mask_of_units_needs_what_decides() -> None:
    for value in (None, "x", ones(WIDTH), ones(ROWS + 1, WIDTH)):
        assert_refused(
            "routing_inputs",
            lambda value=value: ConditionalMask(0.5)(ones(ROWS, 8), value),
        )


@pytest.mark.eager
@pytest.mark.parametrize(
    "sizes",
    ["x", [1, 1, 0, 0], np.array([1, 1]), np.array([[1, 1, 0, 0]])]
    + [np.array(s) for s in ([9, 9, 9, 9], [-1, 1, 1, 1], [0.5] * 4)],
)
@pytest.mark.parametrize("name", ["MLPExperts", "LayerExperts"])
def test_groups_add_up_to_at_most_the_rows(name: str, sizes: Any) -> None:
    layer = LAYERS[name]()
    assert_refused(
        "group_sizes", lambda: layer(ones(ROWS, WIDTH), group_sizes=sizes)
    )


def test_groups_of_a_matmul_add_up_to_at_most_the_rows() -> None:
    with pytest.raises(ValueError, match=r"number of rows, 3.*sizes=\[2 2\]"):
        grouped_matmul(ones(3, 1), ones(2, 1, 1), np.array([2, 2]))
    products = grouped_matmul(ones(3, 1), ones(2, 1, 1), np.array([0, 2]))
    assert keras.ops.convert_to_numpy(products).ravel().tolist() == [1, 1, 0]


def test_layers_of_ones_own_may_take_anything_else() -> None:
    class Scaled(TopKGate):
        def call(self, inputs: Any, scale: Any, training: Any = None) -> Any:
            return super().call(inputs, training=training) * scale

    weights = Scaled(N, k=2)(ones(ROWS, WIDTH), scale=2.0)
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(keras.ops.sum(weights, axis=-1)), 2.0
    )


def test_a_gate_is_permuted_once() -> None:
    gate = PermutedGate(TopKGate(N, k=2))
    with pytest.raises(ValueError, match=r"`gate` must not be a PermutedGate"):
        PermutedGate(gate)


@pytest.mark.parametrize("weights", [[-0.5, 1.5], [1.0, -1e-9]])
def test_constant_weights_are_not_negative(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="`weights` must not be negative"):
        ConstantGate(weights)


@pytest.mark.parametrize("weights", [None, "ab", {"a": 1}, [[1.0], [2.0, 3.0]]])
def test_constant_weights_are_numbers(weights: Any) -> None:
    assert_refused("weights", lambda: ConstantGate(weights))
