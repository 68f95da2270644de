from collections.abc import Sequence

import keras

from keras_moe.layers import MoE
from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Structure
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="recsys")
class SharedTower(keras.layers.Layer):
    """Gives every task the output of one and the same layer.

    Args:
        layer: A `MoE`, or any layer of one input.
        tasks: Names of the tasks.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(batch, p)`.
        gate_inputs: What the gate of a `MoE` sees; other layers do without.
        training: Boolean.
        budget: Experts per row on average, for a `MoE` whose gate takes it.

    Returns:
        Dict of task to the layer's output.

    Example:
    >>> layer = SharedTower(keras.layers.Dense(3), ["watch", "rating"])
    >>> {task: tuple(y.shape) for task, y in layer(np.ones((2, 4))).items()}
    {'watch': (2, 3), 'rating': (2, 3)}
    """

    def __init__(
        self, layer: keras.layers.Layer, tasks: Sequence[str], **kwargs: object
    ) -> None:
        super().__init__(**kwargs)
        self.layer = layer
        self.tasks = list(tasks)

    def build(
        self, inputs_shape: Shape, gate_inputs_shape: Shape | None = None
    ) -> None:
        self.layer.build(*self._taken(inputs_shape, gate_inputs_shape))

    def call(
        self,
        inputs: Tensor,
        gate_inputs: Tensor | None = None,
        training: bool | None = None,
        budget: float | Tensor | None = None,
    ) -> dict[str, Tensor]:
        taken = self._taken(inputs, gate_inputs)
        given = {} if budget is None else {"budget": budget}
        output = self.layer(*taken, training=training, **given)
        return dict.fromkeys(self.tasks, output)

    def compute_output_shape(
        self, inputs_shape: Shape, gate_inputs_shape: Shape | None = None
    ) -> dict[str, Shape]:
        taken = self._taken(inputs_shape, gate_inputs_shape)
        return dict.fromkeys(
            self.tasks, self.layer.compute_output_shape(*taken)
        )

    def _taken(
        self, inputs: Structure, gate_inputs: Structure
    ) -> tuple[Structure, ...]:
        if isinstance(self.layer, MoE):
            return inputs, gate_inputs
        return (inputs,)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "layer": keras.saving.serialize_keras_object(self.layer),
            "tasks": self.tasks,
        }

    @classmethod
    def from_config(cls, config: Config) -> "SharedTower":
        restore = keras.saving.deserialize_keras_object
        return cls(**{**config, "layer": restore(config["layer"])})
