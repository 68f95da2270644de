import inspect
from collections.abc import Collection
from collections.abc import Mapping

import keras

from keras_moe.types import Config

# Of more layers in a list, `repr` shows one.
LONGEST_LIST = 4


def serialized_parameters(layer: keras.layers.Layer) -> Config:
    """The initializers and regularizers of a layer, for its configuration.

    Args:
        layer: A layer with its initializers and regularizers in attributes
            whose names end in `_initializer` and `_regularizer`.

    Returns:
        Dict of these names to serialized values.
    """
    return {
        name: keras.saving.serialize_keras_object(value)
        for name, value in vars(layer).items()
        if name.endswith(("_initializer", "_regularizer"))
    }


def shown_arguments(
    layer: keras.layers.Layer, hidden: Collection[str] = ("name",)
) -> Config:
    """Returns the arguments of a layer that tell what it is.

    Those of its constructor that are numbers or words, and the layers inside;
    switches only where they are not as by default.

    Args:
        layer: A layer whose configuration holds its arguments.
        hidden: Arguments that are not to be shown.
    """
    defaults = _defaults(type(layer))
    shown: Config = {}
    for name, value in layer.get_config().items():
        inside = getattr(layer, name, None)
        if _holds_layers(inside):
            shown[name] = inside
        elif name not in hidden and not (
            value is None
            or isinstance(value, dict)
            or (isinstance(value, bool) and value == defaults.get(name))
        ):
            shown[name] = value
    return shown


def described(
    layer: keras.layers.Layer, hidden: Collection[str] = ("name",)
) -> str:
    """Describes the parts of a layer in a line, as `repr` shows it.

    It shows what `shown_arguments` returns.

    Args:
        layer: A layer whose configuration holds its arguments.
        hidden: Arguments that are not to be shown.

    Example:
        >>> keras_moe.layers.TopKGate(4, k=2, noisy=True, name="gate")
        TopKGate(num_experts=4, k=2, noisy=True, name='gate')
    """
    shown = [
        f"{name}={_shortened(value) if _holds_layers(value) else repr(value)}"
        for name, value in shown_arguments(layer, hidden).items()
    ]
    shown.append(f"name={layer.name!r}")
    return f"{type(layer).__name__}({', '.join(shown)})"


def _defaults(kind: type[keras.layers.Layer]) -> dict[str, object]:
    """Returns the defaults of a layer's own and passed-on arguments."""
    return {
        name: parameter.default
        for base in reversed(kind.__mro__)
        if issubclass(base, keras.layers.Layer) and "__init__" in vars(base)
        for name, parameter in inspect.signature(
            vars(base)["__init__"]
        ).parameters.items()
    }


def _holds_layers(value: object) -> bool:
    values: Collection[object] = [value]
    if isinstance(value, Mapping):
        values = value.values()
    elif isinstance(value, list):
        values = value
    return bool(values) and all(
        isinstance(layer, keras.layers.Layer) for layer in values
    )


def _shortened(layers: object) -> str:
    """The layers, of a long list the first."""
    if isinstance(layers, list) and len(layers) > LONGEST_LIST:
        return f"[{layers[0]!r}, ... {len(layers)} in all]"
    if isinstance(layers, Mapping):
        return repr(dict(layers))
    return repr(layers)
