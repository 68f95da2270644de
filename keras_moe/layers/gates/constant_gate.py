from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.gates.gate import check_no_router_losses
from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class ConstantGate(Gate):
    """A static gate whose weights are given and never trained.

    Attributes:
        k: Number of nonzero weights.
        on_simplex: Whether they sum to 1.

    Args:
        weights: `n >= 2` numbers `>= 0`, the weight of each expert, at least
            one of them not zero.
        **kwargs: `name`.

    Call arguments:
        inputs: Tensor `(..., p)`, ignored.

    Returns:
        Float32 tensor `(n,)`.

    Raises:
        TypeError: If `weights` are no numbers.
        ValueError: If `weights` are less than two, all zero, negative or not
            finite, or the weight of a loss is given.

    Example:
        >>> gate = ConstantGate([0.0, 1.0, 0.0])
        >>> keras.ops.convert_to_numpy(gate(np.ones((2, 3)))).tolist()
        [0.0, 1.0, 0.0]
    """

    always_sparse = True

    def __init__(self, weights: Sequence[float], **kwargs: Any) -> None:
        check_no_router_losses(kwargs, "a ConstantGate has nothing to train")
        values = _as_numbers(weights)
        if values.ndim != 1 or not np.isfinite(values).all():
            raise ValueError(
                "`weights` must be a list of finite numbers. "
                f"Received: weights={weights!r}"
            )
        if (values < 0).any():
            raise ValueError(
                f"`weights` must not be negative. Received: weights={weights!r}"
            )
        if not values.any():
            raise ValueError(
                f"`weights` must not all be zero. Received: weights={weights!r}"
            )
        super().__init__(
            len(values), k=int(np.count_nonzero(values)), static=True, **kwargs
        )
        self.values = values
        self.on_simplex = bool(np.isclose(values.sum(), 1.0))

    def build(self, input_shape: Shape) -> None:
        """There is nothing to build."""

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        return ops.convert_to_tensor(self.values)

    def get_config(self) -> Config:
        return {
            "name": self.name,
            "trainable": self.trainable,
            "weights": self.values.tolist(),
        }


def _as_numbers(weights: object) -> np.ndarray:
    try:
        return np.asarray(weights, "float32")
    except (TypeError, ValueError) as error:
        raise TypeError(
            "`weights` must be a list of numbers. "
            f"Received: weights={weights!r}"
        ) from error
