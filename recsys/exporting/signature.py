"""Signatures of SavedModels whose inputs may be left out."""

import inspect
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Any

from recsys.features.feature import FittedFeature

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf


@dataclass(frozen=True)
class Input:
    """An input of a SavedModel that may be left out.

    Attributes:
        dtype: Its type.
        shape: Its dimensions, `None` where any size will do.
        default: Array `(1, ...)` that a server takes where a request leaves
            it out.
    """

    dtype: str
    shape: tuple[int | None, ...]
    default: "np.ndarray"

    @classmethod
    def of(cls, feature: FittedFeature) -> "Input":
        """Returns the input of a feature, which is missing by default."""
        return cls(feature.raw_dtype, feature.raw_shape, feature.raw_missing())

    @classmethod
    def of_budget(cls, budget: float) -> "Input":
        """Returns an input of numbers that are `budget` by default."""
        import numpy as np

        return cls("float32", (None,), np.array([budget], "float32"))


def with_defaults(
    serve: "Callable[..., dict[str, tf.Tensor]]", inputs: Mapping[str, Input]
) -> Any:
    """Returns a function as the signature of a SavedModel.

    Args:
        serve: Takes the inputs by name.
        inputs: The inputs by name.
    """
    import tensorflow as tf

    def called(*tensors: "tf.Tensor") -> "dict[str, tf.Tensor]":
        return serve(**dict(zip(inputs, tensors, strict=True)))

    # TensorFlow takes names and defaults from those of the parameters.
    called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=tf.constant(input.default),
            )
            for name, input in inputs.items()
        ]
    )
    return tf.function(
        called,
        input_signature=[
            tf.TensorSpec(input.shape, input.dtype, name)
            for name, input in inputs.items()
        ],
        autograph=False,  # No Python statement here waits for a tensor.
    )


def of_one_batch(encoded: "dict[str, tf.Tensor]") -> "dict[str, tf.Tensor]":
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
