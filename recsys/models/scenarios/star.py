from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor
from recsys.models.scenarios.partitioned_normalization import (
    PartitionedNormalization,
)
from recsys.models.scenarios.scenario_model import ScenarioModel
from recsys.models.scenarios.star_dense import StarDense

_AUXILIARY_UNITS = 16  # Hidden units of an auxiliary network.


@keras.saving.register_keras_serializable(package="recsys")
class Star(ScenarioModel):
    """Normalizes features by scenario, and has heads with weights of each.

    The features go through a `PartitionedNormalization`; heads are
    `StarHead`s, whose condition is the scenario and the features as they were.

    An unknown scenario has what all of them share: shared weights alone, and
    the moments of all rows. While training, a share `unknown_rate` of the rows
    is of an unknown scenario, so that the shared weights predict by themselves.

    The arguments, call arguments and outputs are those of `ScenarioModel`.

    Example:
    >>> layer = Star("country", 3)
    >>> features, condition = layer(
    ...     ops.ones((2, 6)), ops.ones(2, "int32"), [ops.ones((2, 4))]
    ... )
    >>> tuple(features.shape), [tuple(part.shape) for part in condition]
    ((2, 6), [(2,), (2, 6)])

    References:
        Sheng et al. One Model to Serve All: Star Topology Adaptive Recommender
        for Multi-Domain CTR Prediction. CIKM 2021.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seed_generator = keras.random.SeedGenerator()
        self.normalization = PartitionedNormalization(
            self.num_scenarios, dtype=self.dtype_policy
        )

    def build(
        self,
        features_shape: Shape,
        scenarios_shape: Shape,
        rows_shape: Sequence[Shape],
    ) -> None:
        self.normalization.build(features_shape, scenarios_shape)

    def with_unknown(
        self, inputs: Mapping[str, Tensor], training: bool | None
    ) -> Mapping[str, Tensor]:
        if not training or not self.unknown_rate:
            return inputs
        scenarios = inputs[self.feature]
        draw = keras.random.uniform(
            ops.shape(scenarios), seed=self.seed_generator
        )
        scenarios = ops.where(draw < self.unknown_rate, 0, scenarios)
        return {**inputs, self.feature: scenarios}

    def call(
        self,
        features: Tensor,
        scenarios: Tensor,
        rows: Sequence[Tensor],
        training: bool | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        normal = self.normalization(features, scenarios, training=training)
        return normal, [scenarios, features]

    def condition_shape(
        self,
        features_shape: tuple[int, ...],
        rows_shapes: Sequence[tuple[int, ...]],
    ) -> list[Shape]:
        return [(None,), features_shape]

    def make_head(
        self, units: Sequence[int], num_outputs: int, activation: str | None
    ) -> "StarHead":
        return StarHead(self.num_scenarios, units, num_outputs, activation)


@keras.saving.register_keras_serializable(package="recsys")
class StarHead(keras.layers.Layer):
    """A head of `StarDense` layers, and an auxiliary network of the features.

    What both say is added before the activation. The auxiliary network has two
    layers; among its features is the embedding of the scenario, by which it
    tells how a scenario differs from others as a whole.

    Args:
        num_scenarios: Integer, number of scenarios.
        units: Integers, hidden widths.
        num_outputs: Integer, width of the output.
        activation: Activation of the output. Defaults to `None`.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(batch, width)`.
        condition: List of the scenarios, an int32 tensor `(batch,)`, and the
            features `(batch, any)`.

    Returns:
        Float32 tensor `(batch, num_outputs)`.

    Example:
    >>> head = StarHead(2, [4], 1, "sigmoid")
    >>> condition = [ops.array([0, 1, 2]), ops.ones((3, 5))]
    >>> tuple(head(ops.ones((3, 6)), condition).shape)
    (3, 1)

    References:
        Sheng et al. (CIKM 2021), sections 3.4 (star topology FCN) and 3.5
        (auxiliary network).
    """

    def __init__(
        self,
        num_scenarios: int,
        units: Sequence[int],
        num_outputs: int,
        activation: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_scenarios = num_scenarios
        self.units = list(units)
        self.num_outputs = num_outputs
        self.activation = activation
        # Float32 under any dtype policy: a probability near 1 needs it.
        self.layers = [
            *(
                StarDense(width, num_scenarios, "relu", dtype=self.dtype_policy)
                for width in self.units
            ),
            StarDense(num_outputs, num_scenarios, dtype="float32"),
        ]
        self.auxiliary = keras.Sequential(
            [
                keras.layers.Dense(
                    _AUXILIARY_UNITS, "relu", dtype=self.dtype_policy
                ),
                keras.layers.Dense(num_outputs, dtype="float32"),
            ]
        )

    def build(
        self, inputs_shape: Shape, condition_shape: Sequence[Shape]
    ) -> None:
        scenarios_shape, features_shape = condition_shape
        widths = [inputs_shape[-1], *self.units]
        for width, layer in zip(widths, self.layers, strict=True):
            layer.build((None, width), scenarios_shape)
        self.auxiliary.build(features_shape)

    def call(self, inputs: Tensor, condition: Sequence[Tensor]) -> Tensor:
        scenarios, features = condition
        for layer in self.layers:
            inputs = layer(inputs, scenarios)
        outputs = inputs + self.auxiliary(features)
        return keras.activations.get(self.activation)(outputs)

    def compute_output_shape(
        self, inputs_shape: Shape, condition_shape: Sequence[Shape]
    ) -> Shape:
        return (*inputs_shape[:-1], self.num_outputs)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "num_scenarios": self.num_scenarios,
            "units": self.units,
            "num_outputs": self.num_outputs,
            "activation": self.activation,
        }
