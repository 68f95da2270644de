"""Signatures of SavedModels whose inputs may be left out."""

import inspect
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any


def with_defaults(
    serve: Callable[..., dict[str, Any]], inputs: Mapping[str, tuple[str, Any]]
) -> Any:
    """Returns a function as the signature of a SavedModel.

    Args:
        serve: Takes the inputs by name.
        inputs: By name, the dtype of an input, and the array `(1, ...)` that a
            server takes where a request leaves it out. All sizes may differ
            from those of the array.
    """
    import tensorflow as tf

    def called(*tensors: Any) -> dict[str, Any]:
        return serve(**dict(zip(inputs, tensors, strict=True)))

    # TensorFlow takes names and defaults from those of the parameters.
    called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=tf.constant(default),
            )
            for name, (_, default) in inputs.items()
        ]
    )
    return tf.function(
        called,
        input_signature=[
            tf.TensorSpec((None,) * default.ndim, dtype, name)
            for name, (dtype, default) in inputs.items()
        ],
    )


def of_one_batch(encoded: dict[str, Any]) -> dict[str, Any]:
    """Repeats what has one row where others have more, or none.

    Args:
        encoded: By name, a tensor `(rows, ...)`, or `(1, ...)`.

    Returns:
        The same, all with the same number of rows.
    """
    import tensorflow as tf

    sizes = tf.stack([tf.shape(values)[0] for values in encoded.values()])
    none = tf.reduce_min(sizes) == 0
    rows = tf.where(none, 0, tf.reduce_max(sizes))
    repeated = {
        name: tf.broadcast_to(
            values, tf.concat([[rows], tf.shape(values)[1:]], 0)
        )
        for name, values in encoded.items()
    }
    return {
        name: tf.ensure_shape(values, [None, *encoded[name].shape[1:]])
        for name, values in repeated.items()
    }
