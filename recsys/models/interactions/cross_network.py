from collections.abc import Sequence

import keras
from keras import ops
from keras_rs.layers import FeatureCross

from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="recsys")
class CrossNetwork(keras.layers.Layer):
    """Crosses all features with each other, a degree higher in each layer.

    x_{l+1} = x_0 * (W_l x_l + b_l) + x_l, where x_0 are the concatenated
    features and * is elementwise.

    Args:
        num_layers: Integer, how many times. Defaults to 2.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        vectors: List of tensors `(batch, width)`, one for each feature.

    Returns:
        Tensor `(batch, sum of the widths)`.

    Example:
    >>> vectors = [ops.ones((2, 3)), ops.ones((2, 1))]
    >>> tuple(CrossNetwork()(vectors).shape)
    (2, 4)

    References:
        Wang et al. DCN V2: Improved Deep & Cross Network and Practical Lessons
        for Web-scale Learning to Rank Systems. WWW 2021, equation 1.
    """

    def __init__(self, num_layers: int = 2, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.num_layers = num_layers
        self.crosses = [FeatureCross() for _ in range(num_layers)]

    def build(self, shapes: Sequence[tuple[int, ...]]) -> None:
        shape = self.compute_output_shape(shapes)
        for cross in self.crosses:
            cross.build(shape)
            cross.dense.build(shape)  # Keras-rs leaves it to the first call.
        self.built = True

    def call(self, vectors: Sequence[Tensor]) -> Tensor:
        features = ops.concatenate(vectors, axis=-1)
        crossed = features
        for cross in self.crosses:
            crossed = cross(features, crossed)
        return crossed

    def compute_output_shape(self, shapes: Sequence[tuple[int, ...]]) -> Shape:
        return (shapes[0][0], sum(width for _, width in shapes))

    def get_config(self) -> Config:
        return {**super().get_config(), "num_layers": self.num_layers}
