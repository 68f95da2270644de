"""What gates share, they share in every copy of their mixture."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_moe.layers import CGC
from keras_moe.layers import PLE
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import PermutedGate
from keras_moe.layers import SinkhornPermutation
from keras_moe.layers import TopKGate

N, WIDTH = 4, 3


def mmoe() -> MMoE:
    shared = SinkhornPermutation(N)
    gates = {
        task: PermutedGate(TopKGate(N, k=2), shared) for task in ("a", "b", "c")
    }
    return MMoE(gates, MLPExperts(N, 2))


def mmoe_of_one_gate() -> MMoE:
    gate = TopKGate(N, k=2)
    return MMoE([gate, TopKGate(N, k=1), gate], MLPExperts(N, 2))


def mmoe_of_one_gate_permuted_twice() -> MMoE:
    gate = PermutedGate(TopKGate(N, k=2))
    return MMoE([gate, gate], MLPExperts(N, 2))


def cgc(shared: SinkhornPermutation | None = None, inner: bool = False) -> CGC:
    shared = shared or SinkhornPermutation(N)

    def gate() -> PermutedGate:
        return PermutedGate(TopKGate(N, k=2), shared)

    return CGC(
        {"a": gate(), "b": gate()},
        shared_experts=MLPExperts(2, WIDTH),
        task_experts={"a": MLPExperts(2, WIDTH), "b": MLPExperts(2, WIDTH)},
        shared_gate=TopKGate(6, k=2) if inner else None,
    )


def ple() -> PLE:
    shared = SinkhornPermutation(N)
    return PLE([cgc(shared, inner=True), cgc(shared)])


MIXTURES = [mmoe, mmoe_of_one_gate, mmoe_of_one_gate_permuted_twice, cgc, ple]
COPIES: dict[str, Callable[[keras.Model], keras.Model]] = {
    "clone_model": keras.models.clone_model,
    "from_config": lambda model: keras.Model.from_config(model.get_config()),
    "to_json": lambda model: keras.models.model_from_json(model.to_json()),
}


def model_of(layer: keras.layers.Layer) -> keras.Model:
    x = keras.Input((WIDTH,))
    return keras.Model(x, layer(x))


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("make", MIXTURES)
def test_a_copy_shares_it_too(make: Any, copy: str) -> None:
    model = model_of(make())
    copied = COPIES[copy](model)
    shapes = [tuple(weight.shape) for weight in model.weights]
    assert [tuple(weight.shape) for weight in copied.weights] == shapes
    copied.set_weights(model.get_weights())
    x = np.ones((2, WIDTH), "float32")
    for one, other in zip(
        keras.tree.flatten(model(x)),
        keras.tree.flatten(copied(x)),
        strict=True,
    ):
        np.testing.assert_array_equal(
            *map(keras.ops.convert_to_numpy, (one, other))
        )


def test_gates_of_a_copy_have_one_permutation() -> None:
    layer = mmoe()
    copied = MMoE.from_config(json.loads(json.dumps(layer.get_config())))
    permutations = {id(gate.permutation) for gate in copied.gates.values()}
    assert len(permutations) == 1
    assert copied.gates["a"].permutation.num_gates == 3
    assert copied.gates["a"].permutation is not layer.gates["a"].permutation


def test_two_copies_share_nothing() -> None:
    config = mmoe().get_config()
    one, other = MMoE.from_config(config), MMoE.from_config(config)
    assert one.gates["a"].permutation is not other.gates["a"].permutation


def test_gates_that_share_nothing_do_not_come_to_share() -> None:
    gates = [PermutedGate(TopKGate(N, k=2)) for _ in range(2)]
    copied = MMoE.from_config(MMoE(gates, MLPExperts(N, 2)).get_config())
    one, other = copied.gates
    assert one.permutation is not other.permutation


def test_a_file_keeps_what_several_layers_share(tmp_path: Path) -> None:
    shared, x = SinkhornPermutation(N), keras.Input((WIDTH,))
    outputs = x
    for _ in range(2):
        gate = PermutedGate(TopKGate(N, k=2), shared)
        outputs = MoE(gate, MLPExperts(N, 2))(outputs)
    model = keras.Model(x, outputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert len(loaded.weights) == len(model.weights)
