"""Runs of `Dense` layers in a model: a tower each."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import keras

from keras_moe.types import Structure
from keras_moe.types import Tensor

Tower = list[keras.layers.Dense]
# A layer, the arguments of its call, and what it returns.
Call = tuple[keras.layers.Layer, tuple[Structure, Structure], Structure]


@dataclass(frozen=True)
class Graph:
    """The calls of layers that a functional or `Sequential` model is made of.

    Attributes:
        calls: In an order in which they can be computed.
        outputs: The model's outputs.
    """

    calls: Sequence[Call]
    outputs: Sequence[Tensor]

    @classmethod
    def of(cls, model: keras.Model) -> "Graph":
        calls: list[Call] = []

        def call(
            layer: keras.layers.Layer, *args: Structure, **kwargs: Structure
        ) -> Structure:
            outputs = layer(*args, **kwargs)
            calls.append((layer, (args, kwargs), outputs))
            return outputs

        traced = rebuilt(model, call)
        return cls(calls, traced.outputs)

    def towers(self) -> list[Tower]:
        """The longest runs of hidden `Dense` layers."""
        hidden = [
            layer
            for layer, _, outputs in self.calls
            if self._is_replaceable(layer) and not self._is_output(outputs)
        ]
        towers: list[Tower] = []
        for layer in hidden:
            for tower in towers:
                if self._follows(tower[-1], layer):
                    tower.append(layer)
                    break
            else:
                towers.append([layer])
        return towers

    def tower(self, names: Sequence[str]) -> Tower:
        """The tower of these layers.

        Raises:
            ValueError: If there is no such tower.
        """
        dense = {
            layer.name: layer
            for layer, _, _ in self.calls
            if self._is_replaceable(layer)
        }
        unknown = [name for name in names if name not in dense]
        if unknown or not names:
            raise ValueError(
                "`layers` must name `Dense` layers of the model that are "
                "called once and have neither constraints, an activity "
                f"regularizer, LoRA nor quantized weights: {sorted(dense)}. "
                f"Received: layers={names!r}"
            )
        tower = [dense[name] for name in names]
        for first, second in pairwise(tower):
            if not self._follows(first, second):
                raise ValueError(
                    "In `layers`, each layer of a tower must take the output "
                    "of the one before, which nothing else takes, and have "
                    "the same dtype, `use_bias`, `trainable` and "
                    f"regularizers. Received: {second.name!r} after "
                    f"{first.name!r}"
                )
        return tower

    def _is_replaceable(self, layer: keras.layers.Layer) -> bool:
        times = sum(called is layer for called, _, _ in self.calls)
        return (
            type(layer) is keras.layers.Dense
            and times == 1
            and _is_plain(layer)
        )

    def _is_output(self, tensor: Tensor) -> bool:
        return any(output is tensor for output in self.outputs)

    def _follows(
        self, first: keras.layers.Dense, second: keras.layers.Dense
    ) -> bool:
        """Whether one layer alone takes the output of another like it."""
        (passed,) = (out for layer, _, out in self.calls if layer is first)
        takers = [
            layer
            for layer, inputs, _ in self.calls
            for tensor in keras.tree.flatten(inputs)
            if tensor is passed
        ]
        return (
            takers == [second]
            and not self._is_output(passed)
            and _settings(first) == _settings(second)
        )


def rebuilt(model: keras.Model, call: Callable[..., Structure]) -> keras.Model:
    """Returns a functional model of the same layers, called by a function.

    Args:
        model: A functional or `Sequential` model.
        call: Function of a layer and the arguments of its call.
    """
    if isinstance(model, keras.Sequential):
        model = keras.Model(model.inputs, model.outputs)
    return keras.models.clone_model(
        model, clone_function=lambda layer: layer, call_function=call
    )


def _is_plain(layer: keras.layers.Dense) -> bool:
    """Whether it is no more than kernel, bias and activation."""
    quantized = keras.dtype_policies.QuantizedDTypePolicy
    return (
        layer.kernel_constraint is None
        and layer.bias_constraint is None
        and layer.activity_regularizer is None
        and not layer.lora_enabled
        and not isinstance(layer.dtype_policy, quantized)
        and not isinstance(layer.activation, keras.layers.Layer)
    )


def _settings(layer: keras.layers.Dense) -> Mapping[str, object]:
    """What the layers of one bank of experts have in common."""
    config = layer.get_config()
    names = (
        "dtype",
        "trainable",
        "use_bias",
        "kernel_regularizer",
        "bias_regularizer",
    )
    return {name: config[name] for name in names}
