import re

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import ConditionallyOverlappingMLP
from studies.perceptrons import PERCEPTRONS
from studies.perceptrons import Shape
from studies.perceptrons import exists
from studies.perceptrons import perceptron
from studies.sparse_hidden import LargestUnits
from studies.sparse_hidden import active_units
from studies.sparse_hidden import hidden_layer

pytestmark = pytest.mark.once("torch")


def build(name: str, keep_rate: float = 0.5, width: int = 8) -> keras.Model:
    return perceptron(name, (2, 3), Shape(width, num_outputs=2), keep_rate)


def num_trained(model: keras.Model) -> int:
    return sum(int(np.prod(w.shape)) for w in model.trainable_weights)


def test_the_largest_pre_activations_are_kept() -> None:
    outputs = LargestUnits(0.5, "relu")(np.array([[-1.0, 3.0, -2.0, 0.5]]))
    assert to_numpy(outputs).tolist() == [[0, 3, 0, 0.5]]
    outputs = LargestUnits(0.75, "tanh")(np.array([[-1.0, 3.0, -2.0, 0.5]]))
    np.testing.assert_allclose(
        to_numpy(outputs), [np.tanh([-1, 3, 0, 0.5])], rtol=1e-5
    )


@pytest.mark.parametrize(
    ("kind", "active"), [("top-k", 3), ("routed", 3), ("standard", 10)]
)
def test_how_many_units_are_active(
    kind: str, active: int, rng: np.random.Generator
) -> None:
    inputs = keras.Input((6,))
    hidden = hidden_layer(kind, 0.3, "tanh")(inputs, 10)
    model = keras.Model(inputs, hidden)
    x = rng.normal(size=(20, 6)).astype("float32")
    counts = (to_numpy(model(x)) != 0).sum(axis=1)
    assert counts.tolist() == [active] * 20
    # Not always the same ones.
    chosen = {tuple(row) for row in to_numpy(model(x)) != 0}
    assert (len(chosen) > 1) == (active < 10)


def test_layers_start_as_published() -> None:
    inputs = keras.Input((400,))
    model = keras.Model(inputs, hidden_layer("standard", 1, "tanh")(inputs, 90))
    kernel = to_numpy(model.layers[-1].kernel)
    assert 0.99 / 20 < kernel.max() <= 1 / 20
    assert -1 / 20 <= kernel.min() < -0.99 / 20


# Of 6 inputs, 3 hidden layers of 8 units and 2 outputs.
DENSE = 7 * 8 + 2 * 9 * 8 + 9 * 2
HALF = 7 * 4 + 2 * 5 * 4 + 5 * 2  # The same with 4 units.
SMALL = ("smaller", "moe", "fixed-moe")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, DENSE) for name in PERCEPTRONS if name not in SMALL),
        ("smaller", HALF),
        ("fixed-moe", 2 * HALF),
        # Its router: 4 units, and a weight and a bias for each expert.
        ("moe", 2 * HALF + 7 * 4 + 5 * 2),
    ],
)
def test_what_is_trained(name: str, expected: int) -> None:
    assert num_trained(build(name)) == expected


@pytest.mark.parametrize(
    "name", ["overlapping", "top-k", "moe", "fixed-moe", "example-tied"]
)
def test_what_a_step_changes(name: str, rng: np.random.Generator) -> None:
    model = build(name)
    inputs = {
        "inputs": rng.normal(size=(32, 2, 3)).astype("float32"),
        "examples": np.arange(32, dtype="int32"),
    }
    before = {w.path: to_numpy(w).copy() for w in model.weights}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.5), loss)
    model.fit(inputs, np.arange(32) % 2, epochs=1, verbose=0)
    trained = {w.path for w in model.trainable_weights}
    for weight in model.weights:
        if weight.path.endswith("kernel"):
            moved = not np.array_equal(to_numpy(weight), before[weight.path])
            assert moved == (weight.path in trained), weight.path


def test_only_example_masks_look_at_the_examples_number(
    rng: np.random.Generator,
) -> None:
    x = rng.normal(size=(4, 2, 3)).astype("float32")
    for name in PERCEPTRONS:
        model = build(name, width=30)
        first, second = (
            to_numpy(model({"inputs": x, "examples": np.arange(4) + start}))
            for start in (0, 4)
        )
        looks = name in ("bernoulli", "example-tied")
        assert np.allclose(first, second) != looks, name


def test_the_l1_penalty_is_in_the_loss() -> None:
    model = build("l1")
    kernels = [w for w in model.trainable_weights if w.path.endswith("kernel")]
    expected = 1e-5 * sum(np.abs(to_numpy(w)).sum() for w in kernels[:-1])
    total = sum(float(to_numpy(loss)) for loss in model.losses)
    np.testing.assert_allclose(total, expected, rtol=1e-5)


def test_ours_is_the_librarys() -> None:
    layers = build("overlapping", keep_rate=0.25).layers
    (mlp,) = [x for x in layers if isinstance(x, ConditionallyOverlappingMLP)]
    assert mlp.units == [8, 8, 8, 2]
    assert [mask.k for mask in mlp.masks] == [2, 2, 2]


def test_a_mixture_of_one_expert_is_left_out() -> None:
    assert not exists("moe", 0.9)
    assert exists("moe", 0.5)
    assert exists("smaller", 0.9)
    assert [active_units(100, rate) for rate in (0.29, 0.001)] == [29, 1]


def test_other_names_are_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("Received: 'l2'")):
        build("l2")
    with pytest.raises(ValueError, match=re.escape("Received: 'l2'")):
        hidden_layer("l2", 0.5, "tanh")
