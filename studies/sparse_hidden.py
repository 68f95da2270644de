"""One hidden layer, and the ways in which few of its units may be active."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_moe.layers import ConditionalMask
from keras_moe.ops import top_k_mask

L1_WEIGHT = 1e-5  # The paper (Shaier et al., section 4.2.1) names none.

HiddenLayer = Callable[[Any, int, float, str], Any]


def fan_in_uniform() -> Any:
    """U(-1/√p, 1/√p) of `p` inputs, drawn anew by each layer.

    The published initializer of the kernels (Shaier et al., section 3).
    """
    return keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")


def dense(units: int, activation: str | None = None, **kwargs: Any) -> Any:
    """A dense layer that starts as the paper's do.

    Args:
        units: Its width.
        activation: Name of its activation, `None` for none.
        **kwargs: As `keras.layers.Dense` takes them.
    """
    kernel_initializer = fan_in_uniform()
    return keras.layers.Dense(
        units, activation, kernel_initializer=kernel_initializer, **kwargs
    )


def active_units(width: int, keep_rate: float) -> int:
    """How many of a layer's units are active, `max(1, floor(p N))`.

    Example:
    >>> active_units(512, 0.1)
    51
    """
    # In floating point 0.29 * 100 is 28.999999999999996.
    return max(1, int(keep_rate * width + 1e-9))


@keras.saving.register_keras_serializable(package="studies")
class LargestUnits(keras.layers.Layer):
    """Keeps the largest pre-activations: the paper's "Topk Model".

    `m_i = 1` if `a_i` is among the k largest of `a`, else 0; `x = m ⊙ f(a)`.
    What is kept is learned, as the layer before is.

    Args:
        keep_rate: Number in `(0, 1]`, the share of the units.
        activation: Name of `f`.
        **kwargs: As any layer's.

    Call arguments:
        inputs: `a`, `(..., N)`.

    Returns:
        `x`, of the same shape.

    References:
        Shaier et al., section 4.2.1.
    """

    def __init__(
        self, keep_rate: float, activation: str, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.keep_rate = keep_rate
        self.activation = activation

    def call(self, inputs: Any) -> Any:
        k = active_units(inputs.shape[-1], self.keep_rate)
        outputs = keras.activations.get(self.activation)(inputs)
        return ops.where(
            top_k_mask(inputs, k), outputs, ops.zeros_like(outputs)
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "keep_rate": self.keep_rate,
            "activation": self.activation,
        }


def _standard(x: Any, width: int, keep_rate: float, activation: str) -> Any:
    return dense(width, activation)(x)


def _smaller(x: Any, width: int, keep_rate: float, activation: str) -> Any:
    return dense(active_units(width, keep_rate), activation)(x)


def _dropout(x: Any, width: int, keep_rate: float, activation: str) -> Any:
    hidden = dense(width, activation)(x)
    return keras.layers.Dropout(1 - keep_rate)(hidden)


def _top_k(x: Any, width: int, keep_rate: float, activation: str) -> Any:
    return LargestUnits(keep_rate, activation)(dense(width)(x))


def _routed(x: Any, width: int, keep_rate: float, activation: str) -> Any:
    """A fixed projection of what the layer sees decides."""
    hidden, _ = ConditionalMask(keep_rate)(dense(width, activation)(x), x)
    return hidden


def _l1(x: Any, width: int, keep_rate: float, activation: str) -> Any:
    penalty = keras.regularizers.L1(L1_WEIGHT)
    return dense(width, activation, kernel_regularizer=penalty)(x)


HIDDEN_LAYERS: dict[str, HiddenLayer] = {
    "standard": _standard,
    "smaller": _smaller,
    "dropout": _dropout,
    "top-k": _top_k,
    "routed": _routed,
    "l1": _l1,
}


def hidden_layer(
    kind: str, keep_rate: float, activation: str
) -> Callable[[Any, int], Any]:
    """Returns what adds a hidden layer: `(x, width) -> hidden`.

    Args:
        kind: `"standard"`, all units; `"smaller"`, as many as would be
            active; `"dropout"`, all but a random share; `"top-k"`, those
            with the largest pre-activations; `"routed"`, those that a fixed
            random projection of `x` picks; `"l1"`, all, with a penalty on
            the kernel.
        keep_rate: Number in `(0, 1]`, the share of units that are active.
        activation: Name of the layer's activation.

    Raises:
        ValueError: There is no such kind.
    """
    if kind not in HIDDEN_LAYERS:
        raise ValueError(
            f"`kind` must be one of {sorted(HIDDEN_LAYERS)}. Received: {kind!r}"
        )
    add = HIDDEN_LAYERS[kind]
    return lambda x, width: add(x, width, keep_rate, activation)
