from collections.abc import Sequence

import keras
from keras import ops
from keras_rs.layers import DotInteraction

from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="recsys")
class DotProducts(keras.layers.Layer):
    """Adds the dot product of each pair of features to the features.

    Features of another width than `dim`, such as numbers, are brought to it by
    a dense layer for the products.

    Args:
        dim: Integer, the width in which features are compared.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        vectors: List of tensors `(batch, width)`, one for each feature.

    Returns:
        Tensor `(batch, sum of the widths + number of pairs)`.

    Example:
    >>> vectors = [ops.ones((2, 3)), ops.ones((2, 1)), ops.ones((2, 3))]
    >>> tuple(DotProducts(3)(vectors).shape)
    (2, 10)

    References:
        Naumov et al. Deep Learning Recommendation Model for Personalization
        and Recommendation Systems. 2019, section 2.1.4.
    """

    def __init__(self, dim: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.dim = dim
        self.interaction = DotInteraction()

    def build(self, shapes: Sequence[tuple[int, ...]]) -> None:
        self.projections = [
            None if width == self.dim else keras.layers.Dense(self.dim)
            for _, width in shapes
        ]
        for projection, shape in zip(self.projections, shapes, strict=True):
            if projection is not None:
                projection.build(shape)
        self.built = True

    def call(self, vectors: Sequence[Tensor]) -> Tensor:
        compared = [
            vector if projection is None else projection(vector)
            for projection, vector in zip(
                self.projections, vectors, strict=True
            )
        ]
        parts = list(vectors)
        if len(compared) > 1:
            parts.append(self.interaction(compared))
        return ops.concatenate(parts, axis=-1)

    def compute_output_shape(self, shapes: Sequence[tuple[int, ...]]) -> Shape:
        pairs = len(shapes) * (len(shapes) - 1) // 2
        return (shapes[0][0], sum(width for _, width in shapes) + pairs)

    def get_config(self) -> Config:
        return {**super().get_config(), "dim": self.dim}
