from collections.abc import Sequence

import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="recsys")
class TargetAttention(keras.layers.Layer):
    """Weighs what a user has done by what is asked about now.

    sum_j a(e_j, q) e_j, where e_j are the vectors of a history, q is that of
    the item in question, and a is an MLP on e_j, q, e_j - q and e_j * q with
    one output. The weights are not normalised, so that their sum tells how
    much of the history is about such items.

    Args:
        units: Integers, hidden widths of the MLP. Defaults to `(36,)`.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        rows: Tensor `(batch, length, dim)`, the history.
        query: Tensor `(batch, dim)`.
        mask: Boolean tensor `(batch, length)`, what of the history is there.

    Returns:
        Tensor `(batch, dim)`; zeros for an empty history.

    Example:
    >>> layer = TargetAttention()
    >>> rows, query = ops.ones((2, 5, 4)), ops.ones((2, 4))
    >>> tuple(layer(rows, query, ops.ones((2, 5), "bool")).shape)
    (2, 4)

    References:
        Zhou et al. Deep Interest Network for Click-Through Rate Prediction.
        KDD 2018, section 4.3, equation 3.
    """

    def __init__(self, units: Sequence[int] = (36,), **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.units = list(units)
        self.hidden = [
            keras.layers.Dense(width, activation="relu") for width in units
        ]
        self.output_layer = keras.layers.Dense(1)

    def build(self, rows_shape: tuple[int, ...]) -> None:
        width = 4 * rows_shape[-1]
        for layer in self.hidden:
            layer.build((None, None, width))
            width = layer.units
        self.output_layer.build((None, None, width))
        self.built = True

    def call(self, rows: Tensor, query: Tensor, mask: Tensor) -> Tensor:
        query = ops.broadcast_to(query[:, None, :], ops.shape(rows))
        hidden = ops.concatenate(
            [rows, query, rows - query, rows * query], axis=-1
        )
        for layer in self.hidden:
            hidden = layer(hidden)
        weights = self.output_layer(hidden)  # (batch, length, 1)
        return ops.sum(ops.where(mask[..., None], weights * rows, 0.0), axis=1)

    def get_config(self) -> Config:
        return {**super().get_config(), "units": self.units}
