import keras

from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="recsys")
class GateUnit(keras.layers.Layer):
    """A gate neural unit: factors between 0 and 2 for what it scales.

    δ = 2 sigmoid(relu(x W + b) W' + b'). The hidden layer is as wide as the
    output; the factors begin around 1.

    Args:
        units: Integer, number of factors.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(batch, width)`.

    Returns:
        Tensor `(batch, units)`.

    Example:
    >>> tuple(GateUnit(3)(keras.ops.ones((2, 5))).shape)
    (2, 3)

    References:
        Chang et al. PEPNet: Parameter and Embedding Personalized Network for
        Infusing with Personalized Prior Information. KDD 2023, section 3.2
        (Gate NU).
    """

    def __init__(self, units: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.hidden = keras.layers.Dense(units, "relu", dtype=self.dtype_policy)
        self.factors = keras.layers.Dense(
            units, "sigmoid", dtype=self.dtype_policy
        )

    def build(self, input_shape: Shape) -> None:
        self.hidden.build(input_shape)
        self.factors.build((None, self.units))

    def call(self, inputs: Tensor) -> Tensor:
        return 2 * self.factors(self.hidden(inputs))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.units)

    def get_config(self) -> Config:
        return {**super().get_config(), "units": self.units}
