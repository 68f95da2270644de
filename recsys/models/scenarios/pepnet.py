from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor
from recsys.models.scenarios.scenario_model import ScenarioModel


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


@keras.saving.register_keras_serializable(package="recsys")
class PEPNet(ScenarioModel):
    """Scales features by the scenario, and hidden units by user and item too.

    EPNet scales the vector E of all features by a gate that sees the
    scenario's embedding E_d: O = U(E_d, E') * E. PPNet scales what goes into
    each layer of a head: see `PersonalHead`, whose condition is (E_d, E_u, E_i,
    O'), where E_u and E_i are the embeddings of `prior`. No gradient goes
    through E' and O', so that gates do not train what they scale by.

    An unknown scenario has the embedding of unknown ids, which training learns
    from rows of all scenarios.

    The arguments, call arguments and outputs are those of `ScenarioModel`; the
    condition is a tensor `(batch, sum of the dims + width)`.

    Example:
    >>> layer = PEPNet("country", 3, ["user"])
    >>> features, condition = layer(
    ...     ops.ones((2, 6)), ops.ones(2, "int32"), [ops.ones((2, 4))] * 2
    ... )
    >>> tuple(features.shape), tuple(condition.shape)
    ((2, 6), (2, 14))

    References:
        Chang et al. PEPNet: Parameter and Embedding Personalized Network for
        Infusing with Personalized Prior Information. KDD 2023, sections 3.3
        (EPNet) and 3.4 (PPNet).
    """

    def build(
        self,
        features_shape: tuple[int, ...],
        scenarios_shape: Shape,
        rows_shape: Sequence[tuple[int, ...]],
    ) -> None:
        width = features_shape[-1]
        self.gate = GateUnit(width, dtype=self.dtype_policy)
        self.gate.build((None, rows_shape[0][-1] + width))

    def call(
        self, features: Tensor, scenarios: Tensor, rows: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor]:
        seen = ops.concatenate([rows[0], ops.stop_gradient(features)], axis=-1)
        scaled = self.gate(seen) * features
        return scaled, ops.concatenate(
            [*rows, ops.stop_gradient(scaled)], axis=-1
        )

    def condition_shape(
        self,
        features_shape: tuple[int, ...],
        rows_shapes: Sequence[tuple[int, ...]],
    ) -> Shape:
        width = sum(shape[-1] for shape in rows_shapes)
        return (None, width + features_shape[-1])

    def make_head(
        self, units: Sequence[int], num_outputs: int, activation: str | None
    ) -> "PersonalHead":
        return PersonalHead(units, num_outputs, activation)


@keras.saving.register_keras_serializable(package="recsys")
class PersonalHead(keras.layers.Layer):
    """A head whose layers take inputs that are scaled row by row.

    H_{l+1} = f((δ_l * H_l) W_l + b_l), where H_0 are the inputs, δ_l is a
    `GateUnit` of the condition, and f is ReLU but for the last layer.

    Args:
        units: Integers, hidden widths.
        num_outputs: Integer, width of the output.
        activation: Activation of the output. Defaults to `None`.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(batch, width)`.
        condition: Tensor `(batch, any)`.

    Returns:
        Float32 tensor `(batch, num_outputs)`.

    Example:
    >>> head = PersonalHead([4], 1, "sigmoid")
    >>> tuple(head(ops.ones((2, 3)), ops.ones((2, 5))).shape)
    (2, 1)

    References:
        Chang et al. (KDD 2023), section 3.4 (PPNet).
    """

    def __init__(
        self,
        units: Sequence[int],
        num_outputs: int,
        activation: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = list(units)
        self.num_outputs = num_outputs
        self.activation = activation
        self.layers = [
            *(
                keras.layers.Dense(width, "relu", dtype=self.dtype_policy)
                for width in self.units
            ),
            # Float32 under any dtype policy: a probability near 1 needs it.
            keras.layers.Dense(num_outputs, activation, dtype="float32"),
        ]

    def build(
        self, inputs_shape: tuple[int, ...], condition_shape: Shape
    ) -> None:
        widths = [inputs_shape[-1], *self.units]
        self.gates = [
            GateUnit(width, dtype=self.dtype_policy) for width in widths
        ]
        for width, gate, layer in zip(
            widths, self.gates, self.layers, strict=True
        ):
            gate.build(condition_shape)
            layer.build((None, width))

    def call(self, inputs: Tensor, condition: Tensor) -> Tensor:
        for gate, layer in zip(self.gates, self.layers, strict=True):
            inputs = layer(gate(condition) * inputs)
        return inputs

    def compute_output_shape(
        self, inputs_shape: Shape, condition_shape: Shape
    ) -> Shape:
        return (*inputs_shape[:-1], self.num_outputs)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "num_outputs": self.num_outputs,
            "activation": self.activation,
        }
