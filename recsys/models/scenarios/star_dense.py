from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_moe.ops import grouped_matmul
from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="recsys")
class StarDense(keras.layers.Layer):
    """A dense layer with shared weights that each scenario scales.

    y = f(x (W * W_p) + b + b_p) for a row of scenario p, * elementwise. An
    unknown scenario has the shared weights alone, y = f(x W + b), with which
    every scenario begins: W_p is 1 and b_p is 0 at first.

    Rows are grouped by their scenario, and each group is multiplied by its
    matrix alone.

    Args:
        units: Integer, width of the output.
        num_scenarios: Integer, number of scenarios.
        activation: Activation by name or function. Defaults to `None`.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(batch, width)`.
        scenarios: Int32 tensor `(batch,)`: numbers from 1, 0 for an unknown
            one.

    Returns:
        Tensor `(batch, units)`.

    Example:
    >>> layer = StarDense(3, num_scenarios=2)
    >>> tuple(layer(ops.ones((4, 5)), ops.arange(4) % 3).shape)
    (4, 3)

    References:
        Sheng et al. One Model to Serve All: Star Topology Adaptive Recommender
        for Multi-Domain CTR Prediction. CIKM 2021, section 3.4 (star topology
        FCN).
    """

    def __init__(
        self,
        units: int,
        num_scenarios: int,
        activation: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.num_scenarios = num_scenarios
        self.activation = keras.activations.get(activation)

    def build(
        self, inputs_shape: tuple[Any, ...], scenarios_shape: Shape
    ) -> None:
        width, units, count = inputs_shape[-1], self.units, self.num_scenarios
        self.kernel = self._weight("kernel", (width, units), "glorot_uniform")
        self.bias = self._weight("bias", (units,), "zeros")
        self.kernels = self._weight("kernels", (count, width, units), "ones")
        self.biases = self._weight("biases", (count, units), "zeros")

    def _weight(
        self, name: str, shape: Sequence[int], initializer: str
    ) -> keras.Variable:
        return self.add_weight(name=name, shape=shape, initializer=initializer)

    def call(self, inputs: Tensor, scenarios: Tensor) -> Tensor:
        shared = self.kernel[None]  # (1, width, units)
        kernels = ops.concatenate([shared, shared * self.kernels])
        biases = ops.concatenate([self.bias[None], self.bias + self.biases])
        groups = ops.one_hot(scenarios, self.num_scenarios + 1, dtype="int32")
        order = ops.argsort(scenarios)  # (batch,), scenario by scenario.
        outputs = grouped_matmul(
            ops.take(inputs, order, axis=0),
            kernels,
            ops.sum(groups, axis=0),
            biases,
        )
        outputs = ops.take(outputs, ops.argsort(order), axis=0)
        return self.activation(outputs)

    def compute_output_shape(
        self, inputs_shape: Shape, scenarios_shape: Shape
    ) -> Shape:
        return (*inputs_shape[:-1], self.units)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "num_scenarios": self.num_scenarios,
            "activation": keras.activations.serialize(self.activation),
        }
