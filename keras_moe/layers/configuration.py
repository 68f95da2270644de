from typing import Any

import keras


def serialized_parameters(layer: keras.layers.Layer) -> dict[str, Any]:
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
