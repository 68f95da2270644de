from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras

from recsys.data import DataError
from recsys.data.load import AnyDataset

_ACTIVATIONS = {"binary": "sigmoid", "multiclass": "softmax"}


class MultiTaskModel(keras.Model):
    """A mixture and a head for each task: all that the stages ask of a model.

    A model says what its `features` are, how `encode` makes arrays of them,
    and what the mixture sees of those (`mixture_inputs`). It is built when it
    is constructed.

    Attributes:
        rows_per_step: Rows of a step of inference, which training does not
            divide into batches.

    Args:
        tasks: Tasks with their type, `"binary"`, `"regression"` or
            `"multiclass"`.
        mixture: Layer that takes what `mixture_inputs` returns, such as a
            `keras_moe.layers.MMoE` with one gate per task.
        head_units: Integers, the hidden widths of a head.
        num_classes: For each multiclass task, how many classes there are.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Dict of feature to array, as `encode` returns them.
        training: Boolean.

    Returns:
        Dict of task to float32 tensor: `(batch, 1)`, the probability of a 1
        for a binary task, or `(batch, classes)`, that of each class.
    """

    rows_per_step = 4096

    def __init__(
        self,
        tasks: Mapping[str, str],
        mixture: keras.layers.Layer,
        head_units: Sequence[int],
        num_classes: Mapping[str, int] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.tasks = dict(tasks)
        self.mixture = mixture
        self.head_units = list(head_units)
        self.num_classes = dict(num_classes or {})

    @property
    def features(self) -> dict[str, str]:
        """The features with their type, as in a schema."""
        raise NotImplementedError

    def encode(self, split: Any) -> dict[str, Any]:
        """Returns the model's inputs for rows of a data set."""
        raise NotImplementedError

    def check_fits(self, dataset: AnyDataset) -> None:
        """Checks that a data set has the features and tasks of the model.

        Raises:
            DataError: It has not.
        """
        schema = dataset.schema
        columns = schema.features | schema.tasks
        for column, kind in (self.features | self.tasks).items():
            if columns.get(column) != kind:
                raise DataError.at(
                    f"data set {schema.name!r}",
                    f"a column {column!r} of type {kind}, as in training",
                    columns.get(column, "no such column"),
                )

    def _make_heads(self) -> dict[str, keras.layers.Layer]:
        return {
            task: _head(
                self.head_units,
                self.num_classes.get(task, 1),
                _ACTIVATIONS.get(kind),
            )
            for task, kind in self.tasks.items()
        }

    def _build_towers(self, inputs_shape: Any, gate_inputs_shape: Any) -> None:
        """Builds the mixture and the heads."""
        self.mixture.build(inputs_shape, gate_inputs_shape)
        shapes = self.mixture.compute_output_shape(
            inputs_shape, gate_inputs_shape
        )
        for task, head in self.heads.items():
            head.build(shapes[task])
        self.built = True

    def mixture_inputs(
        self, inputs: Any, training: bool | None
    ) -> tuple[Any, Any]:
        """What the experts and what the gates see, `None` for the same."""
        raise NotImplementedError

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        features, gate_inputs = self.mixture_inputs(inputs, training)
        towers = self.mixture(features, gate_inputs, training=training)
        return {
            task: head(towers[task], training=training)
            for task, head in self.heads.items()
        }

    def compute_output_shape(self, input_shape: Any) -> Any:
        batch = next(iter(input_shape.values()))[0]
        return {
            task: (batch, self.num_classes.get(task, 1)) for task in self.tasks
        }

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "tasks": self.tasks,
            "mixture": keras.saving.serialize_keras_object(self.mixture),
            "head_units": self.head_units,
        }


def _head(
    units: Sequence[int], num_outputs: int, activation: str | None
) -> keras.layers.Layer:
    return keras.Sequential(
        [
            *(keras.layers.Dense(width, activation="relu") for width in units),
            # Float32 under any dtype policy: a probability near 1 needs it.
            keras.layers.Dense(
                num_outputs, activation=activation, dtype="float32"
            ),
        ]
    )
