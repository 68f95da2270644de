"""Models that hold a mixture in every way that Keras has."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import TopKGate

N = 6
NUM_FEATURES = 4


def make_mixture(**kwargs: Any) -> MoE:
    experts = MLPExperts(N, [5, 3], bias_initializer="normal", seed=1)
    return MoE(TopKGate(N, k=2, seed=2), experts, name="mixture", **kwargs)


@keras.saving.register_keras_serializable(package="tests")
class Subclassed(keras.Model):
    """A model whose configuration holds its mixture."""

    def __init__(self, mixture: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mixture = mixture
        self.head = keras.layers.Dense(2)

    def build(self, input_shape: Any) -> None:
        self.mixture.build(input_shape)
        self.head.build(self.mixture.compute_output_shape(input_shape))

    def call(self, inputs: Any) -> Any:
        return self.head(self.mixture(inputs))

    def get_config(self) -> dict[str, Any]:
        mixture = keras.saving.serialize_keras_object(self.mixture)
        return {**super().get_config(), "mixture": mixture}

    @classmethod
    def from_config(cls, config: Any) -> "Subclassed":
        mixture = keras.saving.deserialize_keras_object(config.pop("mixture"))
        return cls(mixture, **config)


def functional() -> keras.Model:
    inputs = keras.Input((NUM_FEATURES,))
    hidden = make_mixture()(keras.layers.Dense(NUM_FEATURES)(inputs))
    return keras.Model(inputs, keras.layers.Dense(2)(hidden))


def sequential() -> keras.Model:
    layers = [make_mixture(), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input((NUM_FEATURES,)), *layers])


def nested() -> keras.Model:
    inputs = keras.Input((NUM_FEATURES,))
    return keras.Model(inputs, keras.layers.Dense(2)(sequential()(inputs)))


def subclassed() -> keras.Model:
    model = Subclassed(make_mixture())
    model.build((None, NUM_FEATURES))
    return model


def of_tasks() -> keras.Model:
    gates = {"a": TopKGate(N, k=1, seed=3), "b": TopKGate(N, k=2, seed=4)}
    inputs = keras.Input((NUM_FEATURES,))
    experts = MLPExperts(N, [5, 3], seed=1)
    return keras.Model(inputs, MMoE(gates, experts, name="mixture")(inputs))


KINDS: dict[str, Callable[[], keras.Model]] = {
    "functional": functional,
    "sequential": sequential,
    "nested": nested,
    "subclassed": subclassed,
    "of-tasks": of_tasks,
}


def mixture_of(model: keras.Model) -> Any:
    """The one mixture of a model, or of a model in it."""
    for layer in model.layers:
        if isinstance(layer, (MoE, MMoE)):
            return layer
        if isinstance(layer, keras.Model):
            return mixture_of(layer)
    raise AssertionError("no mixture")


def make_inputs(rows: int = 40) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, NUM_FEATURES)).astype("float32")


def outputs_of(model: keras.Model, inputs: Any) -> list[np.ndarray]:
    return keras.tree.flatten(model.predict(inputs, verbose=0))
