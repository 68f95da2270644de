from pathlib import Path

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.compress import upcycle
from keras_moe.layers import MoE
from tests.keras_moe.compress.models import Subclassed
from tests.keras_moe.compress.models import make_inputs
from tests.keras_moe.compress.models import make_mixture

pytestmark = pytest.mark.traced_once("jax")

Dense = keras.layers.Dense


def dense(name: str, units: int = 6, **kwargs) -> keras.layers.Dense:
    return Dense(
        units,
        **{
            "activation": "relu",
            "bias_initializer": "normal",
            "name": name,
            **kwargs,
        },
    )


def sequential() -> keras.Model:
    layers = [
        dense("a"),
        dense("b", 5, activation="gelu"),
        Dense(2, name="out"),
    ]
    return keras.Sequential([keras.Input((4,), name="x"), *layers])


def branched() -> keras.Model:
    """Two towers, of which one is met at its second layer, and two heads."""
    x = keras.Input((4,), name="x")
    z = keras.Input((3,), name="z")
    a = dense("a")(x)
    b = dense("b")(a)
    c = dense("c")(z)
    d = dense("d")(c)
    joined = keras.layers.Concatenate()([b, c, d])
    out = Dense(1, name="out")(dense("e")(joined * 2.0))
    return keras.Model({"x": x, "z": z}, {"out": out, "d": d})


def of_tokens() -> keras.Model:
    x = keras.Input((5, 4))
    return keras.Model(x, dense("b", 4, activation=None)(dense("a")(x)) + x)


def inputs_of(model: keras.Model) -> dict[str, np.ndarray] | np.ndarray:
    rng = np.random.default_rng(0)
    arrays = [
        rng.normal(size=(9, *tensor.shape[1:])).astype("float32")
        for tensor in model.inputs
    ]
    if len(arrays) == 1:
        return arrays[0]
    return dict(zip(("x", "z"), arrays, strict=True))


def mixtures_of(model: keras.Model) -> list[str]:
    return [layer.name for layer in model.layers if isinstance(layer, MoE)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("make", "k", "layers", "mixtures"),
    [
        (sequential, 2, None, ["a_moe"]),
        (sequential, 1, ["b"], ["b_moe"]),
        # Three activations in one bank.
        (sequential, 3, ["a", "b", "out"], ["a_moe"]),
        (sequential, 2, [["a"], ["out"]], ["a_moe", "out_moe"]),
        (branched, 2, None, ["a_moe", "c_moe", "e_moe"]),
        (branched, 2, ["a", "b"], ["a_moe"]),
        (branched, 3, [["a"], ["b"], ["d"]], ["a_moe", "b_moe", "d_moe"]),
        (of_tokens, 2, ["a", "b"], ["a_moe"]),
    ],
)
def test_outputs_are_the_same_at_first(make, k, layers, mixtures) -> None:
    model = make()
    x = inputs_of(model)
    result, report = upcycle(model, 3, k, layers, x, seed=1)
    assert sorted(mixtures_of(result)) == mixtures
    assert type(result) is type(model)
    assert report.max_difference < 1e-6
    assert report.experts == dict.fromkeys(mixtures, (1, 3))
    before, after = (m.predict(x, verbose=0) for m in (model, result))
    keras.tree.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), before, after
    )


@pytest.mark.once("torch")
def test_every_expert_is_a_copy() -> None:
    model = sequential()
    result, _ = upcycle(model, 4, 2)
    experts = result.get_layer("a_moe").experts
    assert experts.units == [6, 5]
    for kernel, bias, name in zip(
        experts.kernels, experts.biases, "ab", strict=True
    ):
        layer = model.get_layer(name)
        for expert in range(4):
            np.testing.assert_array_equal(
                to_numpy(kernel)[expert], to_numpy(layer.kernel)
            )
            np.testing.assert_array_equal(
                to_numpy(bias)[expert], to_numpy(layer.bias)
            )


def test_training_tells_the_experts_apart(tmp_path: Path) -> None:
    model, x = sequential(), make_inputs(64)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    y = np.stack([np.abs(x[:, 0]), x[:, 1] * x[:, 2]], axis=1)
    result, report = upcycle(model, 3, 2, data=(x, y), seed=1)
    assert report.loss_after == pytest.approx(report.loss_before, abs=1e-6)
    result.fit(x, y, epochs=5, verbose=0)
    assert result.evaluate(x, y, verbose=0) < report.loss_after
    kernel = to_numpy(result.get_layer("a_moe").experts.kernels[0])
    assert not np.allclose(kernel[0], kernel[1])
    np.testing.assert_array_equal(
        model.predict(x, verbose=0), model.predict(x, verbose=0)
    )


@pytest.mark.once("torch")
def test_gates_follow_the_seed() -> None:
    model = sequential()
    kernels = [
        to_numpy(upcycle(model, 3, 2, seed=s)[0].get_layer("a_moe").gate.kernel)
        for s in (1, 1, 2)
    ]
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert not np.allclose(kernels[0], kernels[2])


@pytest.mark.once("torch")
def test_layers_that_differ_are_towers_of_their_own() -> None:
    layers = [
        dense("a"),
        dense("b", use_bias=False),
        dense("c", kernel_regularizer="l2"),
        dense("d", kernel_constraint="non_neg"),
        keras.layers.Dropout(0.5),
        dense("e", activity_regularizer="l2"),
        dense("f"),
    ]
    layers[-1].trainable = False
    model = keras.Sequential([keras.Input((4,)), *layers, Dense(1, name="out")])
    result, _ = upcycle(model, 2, 2)
    assert mixtures_of(result) == ["a_moe", "b_moe", "c_moe", "f_moe"]
    bank = {name: result.get_layer(f"{name}_moe").experts for name in "abcf"}
    assert not bank["b"].use_bias
    assert bank["c"].kernel_regularizer is not None
    assert not bank["f"].trainable_weights


@pytest.mark.once("torch")
def test_a_layer_called_twice_stays() -> None:
    x = keras.Input((4,))
    twice = dense("twice", 4)
    model = keras.Model(x, Dense(1)(dense("once")(twice(twice(x)))))
    result, _ = upcycle(model, 2, 1)
    assert mixtures_of(result) == ["once_moe"]


def subclassed() -> keras.Model:
    model = Subclassed(make_mixture())
    model.build((None, 4))
    return model


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"num_experts": 1}, ValueError, "`num_experts` must be at least 2"),
        ({"k": 4}, ValueError, "`k` must be between 1 and 3"),
        ({"model": subclassed}, ValueError, "`model` must be functional or"),
        (
            {"model": lambda: keras.Sequential([keras.Input((4,)), Dense(1)])},
            ValueError,
            "`model` must have hidden `Dense` layers",
        ),
        ({"layers": "a"}, TypeError, "`layers` must be a list of names"),
        ({"layers": [3]}, TypeError, "`layers` must be a list of names"),
        ({"layers": ["a", "a"]}, ValueError, "must name no layer twice"),
        ({"layers": []}, ValueError, "`layers` must name `Dense` layers"),
        ({"layers": ["x"]}, ValueError, "['a', 'b', 'out']"),
        ({"layers": ["b", "a"]}, ValueError, "Received: 'a' after 'b'"),
        (
            {"model": branched, "layers": ["c", "d"]},
            ValueError,
            "which nothing else takes",
        ),
    ],
)
def test_wrong_arguments(change, error, message) -> None:
    make = change.get("model", sequential)
    arguments = {"num_experts": 3, "k": 2, **change, "model": make()}
    with pytest.raises(error) as raised:
        upcycle(**arguments)
    assert message in str(raised.value)
