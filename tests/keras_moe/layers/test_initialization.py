"""A model that is built once more starts alike; no two of its parts do."""

from collections.abc import Callable
from itertools import combinations

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import CGC
from keras_moe.layers import PLE
from keras_moe.layers import ConditionallyOverlappingMLP
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import PermutedGate
from keras_moe.layers import TopKGate

WIDTH = N = 4


def gate(initializer: keras.initializers.Initializer) -> TopKGate:
    return TopKGate(
        N, k=2, kernel_initializer=initializer, bias_initializer=initializer
    )


def experts(initializer: keras.initializers.Initializer, n: int) -> MLPExperts:
    return MLPExperts(n, [WIDTH, WIDTH], kernel_initializer=initializer)


def moe(init: keras.initializers.Initializer) -> keras.layers.Layer:
    return MoE(gate(init), experts(init, N))


def mmoe(init: keras.initializers.Initializer) -> keras.layers.Layer:
    return MMoE([gate(init) for _ in range(3)], experts(init, N))


def permuted(init: keras.initializers.Initializer) -> keras.layers.Layer:
    gates = [PermutedGate(gate(init)) for _ in range(2)]
    return MMoE(gates, experts(init, N))


def cgc(
    init: keras.initializers.Initializer, shared: bool = False
) -> keras.layers.Layer:
    return CGC(
        {"a": gate(init), "b": gate(init)},
        shared_experts=experts(init, 2),
        task_experts={"a": experts(init, 2), "b": experts(init, 2)},
        shared_gate=TopKGate(6, k=1, kernel_initializer=init)
        if shared
        else None,
    )


def ple(init: keras.initializers.Initializer) -> keras.layers.Layer:
    return PLE([cgc(init, shared=True), cgc(init)])


def overlapping(init: keras.initializers.Initializer) -> keras.layers.Layer:
    return ConditionallyOverlappingMLP(
        [WIDTH] * 3, 0.5, seed=2, kernel_initializer=init
    )


Make = Callable[[keras.initializers.Initializer], keras.layers.Layer]
MODELS: list[Make] = [moe, mmoe, permuted, cgc, ple, overlapping]


def values(layer: keras.layers.Layer, trainable: bool = True) -> list:
    """The weights' values as they were drawn."""
    if not layer.built:
        layer.build((None, WIDTH))
    weights = layer.trainable_weights if trainable else layer.weights
    return [to_numpy(w) for w in weights if "logits" not in w.path]


def assert_equal(first: list, second: list) -> None:
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def assert_nothing_twice(arrays: list) -> None:
    """No weight, nor that of any expert, starts like another one."""
    parts = []
    for array in arrays:
        parts += list(array) if array.ndim == 3 else [array]
    drawn = [part.ravel() for part in parts if np.ptp(part) > 0]
    assert len(drawn) > 1
    for one, other in combinations(drawn, 2):
        size = min(len(one), len(other))
        assert (one[:size] != other[:size]).any()


@pytest.mark.traced_once("jax")
@pytest.mark.parametrize("make", MODELS)
def test_an_instance_that_has_served_before_draws_the_same(make: Make) -> None:
    initializer = keras.initializers.RandomUniform(seed=3)
    first = values(make(initializer))
    assert_nothing_twice(first)
    for _ in range(2):
        assert_equal(first, values(make(initializer)))
    # Nor does it matter whether it is this instance.
    assert_equal(first, values(make(keras.initializers.RandomUniform(seed=3))))
    other = values(make(keras.initializers.RandomUniform(seed=4)))
    assert any((a != b).any() for a, b in zip(first, other, strict=True))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make", MODELS)
def test_a_clone_starts_alike(make: Make) -> None:
    layer = make(keras.initializers.RandomUniform(seed=3))
    clone = type(layer).from_config(layer.get_config())
    assert_equal(values(layer), values(clone))


@pytest.mark.parametrize("make", [moe, mmoe, cgc, ple])
def test_without_seeds_every_model_is_another(make: Make) -> None:
    initializer = keras.initializers.RandomUniform()
    arrays = values(make(initializer))
    assert_nothing_twice(arrays)
    assert_nothing_twice(arrays + values(make(initializer)))


def test_a_global_seed_repeats_it() -> None:
    results = []
    for _ in range(2):
        keras.utils.set_random_seed(5)
        results.append(values(ple(keras.initializers.RandomUniform())))
    assert_equal(*results)


@pytest.mark.parametrize("own_seed", [None, 3])
def test_gates_of_equal_seeds_differ_in_a_mixture(own_seed: int | None) -> None:
    def make() -> MMoE:
        gates = [
            TopKGate(
                N,
                k=2,
                seed=seed,
                kernel_initializer=keras.initializers.RandomUniform(
                    seed=own_seed
                ),
            )
            for seed in (7, 7, 8)
        ]
        return MMoE(gates, MLPExperts(N, WIDTH, seed=7))

    first = values(make())
    assert_nothing_twice(first)
    assert_equal(first, values(make()))


def test_a_gate_of_another_seed_does_not_depend_on_its_neighbours() -> None:
    alone = MoE(TopKGate(N, k=2, seed=8), MLPExperts(N, WIDTH))
    gates = [TopKGate(N, k=2, seed=seed) for seed in (7, 8)]
    both = MMoE(gates, MLPExperts(N, WIDTH))
    values(alone), values(both)
    np.testing.assert_array_equal(
        to_numpy(alone.gate.kernel), to_numpy(gates[1].kernel)
    )


def test_the_layer_seed_tells_models_with_one_initializer_apart() -> None:
    initializer = keras.initializers.RandomUniform(seed=3)
    arrays = []
    for seed in (None, 0, 1):
        gate = TopKGate(N, k=2, seed=seed, kernel_initializer=initializer)
        bank = MLPExperts(N, 3, seed=seed, kernel_initializer=initializer)
        arrays += values(MoE(gate, bank))
    assert_nothing_twice(arrays)


def test_layers_that_stand_alone_are_told_apart_by_name() -> None:
    initializer = keras.initializers.RandomUniform(seed=3)

    def make(name: str) -> list:
        first = TopKGate(
            N, k=2, kernel_initializer=initializer, name=f"gate_{name}"
        )
        bank = MLPExperts(
            N, WIDTH, kernel_initializer=initializer, name=f"experts_{name}"
        )
        return values(first) + values(bank)

    a, b = make("a"), make("b")
    assert_nothing_twice(a + b)
    assert_nothing_twice(a + values(mmoe(initializer)))
    assert_equal(a, make("a"))
    assert_equal(b, make("b"))


def test_a_saved_model_keeps_its_weights(tmp_path: object) -> None:
    initializer = keras.initializers.RandomUniform(seed=3)
    inputs = keras.Input((WIDTH,))
    model = keras.Model(inputs, ple(initializer)(inputs))
    for weight in model.trainable_weights:
        weight.assign(2 * weight)
    path = f"{tmp_path}/model.keras"
    model.save(path)
    restored = keras.saving.load_model(path)
    for one, other in zip(model.weights, restored.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other))
