from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from recsys.models.multi_task_model import MultiTaskModel
from recsys.private_names import inner_layers
from recsys.private_names import sharing_layers

Config = dict[str, Any]


def with_configs(
    model: MultiTaskModel, change: Callable[[Config], Config]
) -> MultiTaskModel:
    """Returns a model with the same weights and parts of other configurations.

    Args:
        model: A built model.
        change: Gets each dict in the model's configuration, innermost first,
            and returns what stands in its place. A layer may be replaced by
            one that has only some of its weights, under the same names.

    Raises:
        ValueError: A changed layer has a weight that the model's has not.
    """
    with sharing_layers():
        changed = type(model).from_config(_walk(model.get_config(), change))
    _copy_weights(model, changed)
    return changed


def _walk(part: object, change: Callable[[Config], Config]) -> Any:
    if isinstance(part, dict):
        return change(
            {key: _walk(value, change) for key, value in part.items()}
        )
    if isinstance(part, list | tuple):
        return type(part)(_walk(value, change) for value in part)
    return part


def _copy_weights(
    source: keras.layers.Layer, target: keras.layers.Layer
) -> None:
    """Gives a layer, and those in it, the weights of the same names."""
    theirs = _own_weights(source)
    for name, weight in _own_weights(target).items():
        if name not in theirs or theirs[name].shape != weight.shape:
            raise ValueError(
                f"The layer {source.name!r} must have a weight {name!r} of "
                f"shape {weight.shape} to become a {type(target).__name__}. "
                f"Received: {[(w, theirs[w].shape) for w in theirs]}"
            )
        # A copy: JAX takes the memory of a model that predicts.
        weight.assign(ops.convert_to_numpy(theirs[name]).copy())
    parts = inner_layers(target)
    if parts or type(source) is type(target):
        for part, like in zip(inner_layers(source), parts, strict=True):
            _copy_weights(part, like)


def _own_weights(layer: keras.layers.Layer) -> dict[str, keras.Variable]:
    """The weights of a layer that are not those of a layer in it, by name."""
    inner = {id(w) for part in inner_layers(layer) for w in part.weights}
    weights = [w for w in layer.weights if id(w) not in inner]
    by_name = {weight.name: weight for weight in weights}
    if len(by_name) < len(weights):
        raise ValueError(
            f"The weights of the layer {layer.name!r} must have different "
            f"names. Received: {[weight.name for weight in weights]}"
        )
    return by_name
