from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import pandas as pd

# Registers the losses that the file of a model may name.
import recsys.tasks.imbalanced_crossentropy
import recsys.tasks.standardized_squared_error  # noqa: F401
from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.columns.kind import Declaration
from recsys.columns.kind import Kind
from recsys.columns.kind import declarations
from recsys.columns.kind import declared
from recsys.data import DataError
from recsys.data.load import AnyDataset
from recsys.data.schema import Schema
from recsys.errors import RunError
from recsys.errors.shown import shown
from recsys.features import Feature
from recsys.files.json_files import JsonObject
from recsys.models.calibration.calibration import Calibration
from recsys.models.feeding import InputBatches
from recsys.models.feeding import feed
from recsys.models.position_tower import POSITIONS
from recsys.models.position_tower import PositionTower
from recsys.models.task_training import TaskTraining
from recsys.models.traced_once import TracedOnce
from recsys.tasks import TASKS
from recsys.tasks import Task
from recsys.tasks.binary import Binary
from recsys.tasks.chains import parents_first
from recsys.terminal.tensorflow_log import relevant_log


class LayerInputs(NamedTuple):
    """What a mixture and the heads behind it take of a model's inputs.

    Attributes:
        features: What the experts see; a dict where a mixture has several
            streams.
        gate_inputs: What the gates see; `None` for the same.
        condition: What heads take beside the mixture's output, `None` for
            heads that take nothing else.
        intercepts: By task, tensor `(batch, outputs)` that is added to the
            last sums of its head; of tasks that are left out, nothing is.
    """

    features: Structure
    gate_inputs: Tensor | None = None
    condition: Structure = None
    intercepts: Mapping[str, Tensor] = MappingProxyType({})


class MultiTaskModel(TracedOnce, TaskTraining):
    """A mixture and a head for each task: all that the stages ask of a model.

    A model says what its `features` are, how `encode` makes arrays of them,
    and what the mixture sees of those (`mixture_inputs`). It is built when it
    is constructed.

    Attributes:
        rows_per_step: Rows of a step of inference, which training does not
            divide into batches.

    Args:
        tasks: Tasks with their kind, of `recsys.tasks`, or what `dataset.json`
            says of it: `"binary"`, `"regression"` or `"multiclass"`.
        mixture: Layer that takes what `mixture_inputs` returns, such as a
            `keras_moe.layers.MMoE` with one gate per task.
        head_units: Integers, the hidden widths of a head.
        num_classes: For each multiclass task, how many classes there are.
        constants: By task, the mean of the training split's labels, or a list
            with the share of each class. Metrics are compared with what this
            prediction for all rows is worth.
        target_scales: By regression task, the standard deviation of the
            training split's labels. The head of such a task predicts how many
            of them a label is above its mean; the output of the model is in
            the label's own unit all the same, and `loss_of` weighs errors by
            the scale. Tasks that are left out are not standardised.
        calibrations: By binary task, what maps its predictions, but for those
            in training; `recsys.calibrate` fits it. None unless given.
        num_positions: Positions of a `PositionTower`, by whose output binary
            tasks are multiplied, but for those after another task, where
            positions are among the inputs: in training and the choice of its
            epoch. 0 (default) without a tower.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Dict of feature to array, as `encode` returns them.
        training: Boolean.
        budget: Experts per row on average: a number, or a tensor, a scalar or
            `(batch,)`. `None` (default) is that of the gates, and the only
            value where they take none (`takes_budget`).

    Returns:
        Dict of task to float32 tensor: `(batch, 1)`, the probability of a 1
        for a binary task (in it and in the task that it comes after, if any)
        and a number in the label's unit for a regression task, or
        `(batch, classes)`, the probability of each class.

    Raises:
        ValueError: A constant is of another form, or a scale is not above 0,
            or its task is no regression task or has no constant.
    """

    rows_per_step = 4096

    def __init__(
        self,
        tasks: Mapping[str, Declaration | Task],
        mixture: keras.layers.Layer,
        head_units: Sequence[int],
        num_classes: Mapping[str, int] | None = None,
        constants: Mapping[str, float | Sequence[float]] | None = None,
        target_scales: Mapping[str, float] | None = None,
        calibrations: Mapping[str, Calibration | JsonObject] | None = None,
        num_positions: int = 0,
        **kwargs: Any,
    ) -> None:
        # Layers cast what they take; of a number, half precision loses much.
        super().__init__(autocast=False, **kwargs)
        self.tasks: dict[str, Task] = {
            task: declared(kind, TASKS, "`tasks`", task)
            for task, kind in tasks.items()
        }
        for task, kind in self.tasks.items():
            kind.check_among(self.tasks, task)
        self.mixture = mixture
        self.head_units = list(head_units)
        self.num_classes = dict(num_classes or {})
        self.constants: dict[str, Any] = dict(constants or {})
        self.target_scales = dict(target_scales or {})
        self.calibrations: dict[str, Calibration] = {
            task: Calibration.model_validate(calibration)
            for task, calibration in (calibrations or {}).items()
        }
        self.num_positions = num_positions
        self.position_tower = self._make_position_tower()
        for task, constant in self.constants.items():
            classes = self.num_classes.get(task)
            if np.shape(constant) != (() if classes is None else (classes,)):
                raise ValueError(
                    "`constants` must be numbers, and for multiclass tasks "
                    f"lists of one for each class. Received: {task!r} with "
                    f"{constant} and num_classes={self.num_classes}"
                )
        for task, scale in self.target_scales.items():
            standardizable = task in self.tasks and task in self.constants
            standardizable &= self.tasks[task].standardizable
            if not (standardizable and scale > 0):
                raise ValueError(
                    "`target_scales` must be above 0, and of regression tasks "
                    f"with a constant. Received: {task!r} with {scale} among "
                    f"tasks={declarations(self.tasks)} and "
                    f"constants={self.constants}"
                )

    @property
    def features(self) -> dict[str, Feature]:
        """The features with their kind, as in a schema."""
        raise NotImplementedError

    @property
    def has_trained_tasks(self) -> bool:
        """Whether the tasks were trained, so that predictions say something."""
        return True

    def check_trained_tasks(self, place: object) -> None:
        """Checks that predictions of the model say something.

        Args:
            place: The run folder, or what else holds the model, for the error
                message.

        Raises:
            RunError: Its retrieval was trained without the tasks.
        """
        if not self.has_trained_tasks:
            raise RunError(
                f"{place}: expected trained tasks. Received: retrieval trained "
                "without them (ranker=False). `recsys train --ranker` trains "
                "both; without them, there are `recsys recommend` and "
                "`recsys export --two-stage`"
            )

    def encode(self, split: Any) -> dict[str, np.ndarray]:
        """Returns the model's inputs for rows of a data set."""
        raise NotImplementedError

    def check_inputs(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Checks that arrays are what `encode` returns.

        Args:
            inputs: By feature, an array of numbers that has been kept.

        Raises:
            DataError: They are not.
        """
        raise NotImplementedError

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        **kwargs: Any,
    ) -> Any:
        """Predicts every task for a table, or for what Keras takes.

        Args:
            x: A `pandas.DataFrame` with the columns of the features, checked
                as `recsys predict` checks a file: an id that the model does
                not know, or that is missing, is an unknown id, a missing
                number counts as the mean, a missing list is empty, other
                columns are ignored. A feature whose column is left out is
                missing in every row, with a warning. Or anything that
                `keras.Model.predict` takes, such as what `encode` returns.
            batch_size: Rows in a step; as many as suit the model unless given.
            verbose: As in `keras.Model.predict`; nothing is shown for a table
                unless given.
            **kwargs: Those of `keras.Model.predict`.

        Returns:
            For a table, a `pandas.DataFrame` with its index and a float64
            column for each task, named after it: the probability of a 1 for a
            binary task, a number in the label's unit for a regression task.
            A multiclass task has a column for the probability of each class,
            `<task>_0`, `<task>_1` and so on. Otherwise what
            `keras.Model.predict` returns.

        Raises:
            DataError: A column is not the only one of its name, or holds a
                value that is not of its type; no feature has a column, or
                another column has nearly the name of a feature without one;
                or the model is not for tables.
            RunError: The tasks of the model were not trained.
        """
        self.check_trained_tasks("the model")
        if not isinstance(x, pd.DataFrame):
            with relevant_log():
                return super().predict(x, batch_size, verbose, **kwargs)
        rows = self._parse(x)
        if not len(rows):
            nothing = self.columns(self.no_predictions())
            return pd.DataFrame(nothing, index=x.index)
        size = batch_size or self.rows_per_step
        batches = feed(InputBatches(self.encode(rows), size))
        shown = 0 if verbose == "auto" else verbose
        with relevant_log():
            outputs = super().predict(batches, verbose=shown, **kwargs)
        return pd.DataFrame(
            self.columns(outputs), index=x.index, dtype="float64"
        )

    def columns(
        self, predictions: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Returns predictions as the columns of a table.

        Args:
            predictions: By task, an array `(rows,)` or `(rows, outputs)`.

        Returns:
            Arrays `(rows,)` by the names that the kinds of the tasks give
            them, in the order of the tasks.
        """
        columns: dict[str, np.ndarray] = {}
        for task, kind in self.tasks.items():
            names = kind.columns(task, self.num_classes.get(task))
            outputs = predictions[task].reshape(-1, len(names))
            columns |= dict(zip(names, outputs.T, strict=True))
        return columns

    def no_predictions(self) -> dict[str, np.ndarray]:
        """Returns what is predicted for no row, by task."""
        return {
            task: np.zeros((0, self.num_classes.get(task, 1)))
            for task in self.tasks
        }

    def _parse(self, table: pd.DataFrame) -> pd.DataFrame:
        """Checks a table and brings its features to the form of a split."""
        raise DataError.at(
            "`x`",
            f"inputs by feature, as `encode` returns them, for a model with "
            f"the features {declarations(self.features)}",
            "a DataFrame",
        )

    def check_fits(self, dataset: AnyDataset) -> None:
        """Checks that a data set has the features and tasks of the model.

        Raises:
            DataError: It has not.
        """
        schema = dataset.schema
        types = _types({**schema.columns, **schema.features})
        trained = _types(self.features) | _types(self.tasks)
        for column, kind in trained.items():
            if types.get(column) != kind:
                raise DataError.at(
                    schema.place,
                    f"a column {column!r} of type {kind}, as in training",
                    types.get(column, "no such column"),
                )
        for task, count in self.num_classes.items():
            self._check_classes(task, schema)
            largest = max(
                split[task].max() for split in dataset.splits.values()
            )
            if largest >= count:
                raise DataError.at(
                    schema.place,
                    f"one of {count} classes of {task!r}, as in training",
                    f"a class {largest:.0f}",
                )

    def _check_classes(self, task: str, schema: Schema) -> None:
        """Raises DataError where classes have other names, or other places."""
        trained, given = (
            self.tasks[task].declaration,
            schema.tasks[task].declaration,
        )
        if trained != given:
            raise DataError.at(
                schema.place,
                f"{task!r} declared as {shown(trained)}, as in training",
                shown(given),
            )

    def loss_of(
        self, task: str, reduction: str | None = "mean_with_sample_weight"
    ) -> keras.losses.Loss:
        """Returns the loss that a task is trained on.

        Args:
            task: Name of the task.
            reduction: As in `keras.losses.Loss`.
        """
        return self.tasks[task].loss(reduction, self.target_scales.get(task))

    def _make_heads(
        self, make: Callable[..., keras.layers.Layer] | None = None
    ) -> dict[str, keras.layers.Layer]:
        """Makes the head of each task.

        Args:
            make: Makes it of the hidden widths, the number of outputs and the
                activation. Dense layers unless given.
        """
        make = make or _head
        return {
            task: make(
                self.head_units,
                self.num_classes.get(task, 1),
                kind.activation,
            )
            for task, kind in self.tasks.items()
        }

    def _make_position_tower(self) -> PositionTower | None:
        # A task after another one has its factor.
        seen = [
            task
            for task, kind in self.tasks.items()
            if isinstance(kind, Binary) and kind.parent is None
        ]
        if not self.num_positions or not seen:
            return None
        return PositionTower(seen, self.num_positions)

    def _build_towers(
        self,
        inputs_shape: Shape,
        gate_inputs_shape: Shape | None,
        condition_shape: Structure = None,
    ) -> None:
        """Builds the mixture and the heads."""
        self.mixture.build(inputs_shape, gate_inputs_shape)
        shapes = self.mixture.compute_output_shape(
            inputs_shape, gate_inputs_shape
        )
        for task, head in self.heads.items():
            if not head.built:
                given = () if condition_shape is None else (condition_shape,)
                head.build(shapes[task], *given)
        if self.position_tower is not None:
            self.position_tower.build()
        self.built = True

    def mixture_inputs(
        self, inputs: Mapping[str, Tensor], training: bool | None
    ) -> tuple[Structure, Tensor | None]:
        """Inputs of experts and gates, `None` for the same.

        Those of the experts are a dict where a mixture has several streams.
        """
        raise NotImplementedError

    def layer_inputs(
        self, inputs: Mapping[str, Tensor], training: bool | None
    ) -> LayerInputs:
        """Returns what the mixture and the heads take."""
        return LayerInputs(*self.mixture_inputs(inputs, training))

    def call(
        self,
        inputs: Mapping[str, Tensor],
        training: bool | None = None,
        budget: float | Tensor | None = None,
    ) -> dict[str, Tensor]:
        taken = self.layer_inputs(inputs, training)
        given = {} if budget is None else {"budget": budget}
        towers = self.mixture(
            taken.features, taken.gate_inputs, training=training, **given
        )
        beside = () if taken.condition is None else (taken.condition,)
        outputs = {
            task: head(towers[task], *beside, training=training)
            for task, head in self.heads.items()
        }
        for task, intercepts in taken.intercepts.items():
            outputs[task] = self.tasks[task].shifted(outputs[task], intercepts)
        outputs = {
            task: self._in_own_unit(task, values)
            for task, values in outputs.items()
        }
        tower = self.position_tower
        if tower is not None and POSITIONS in inputs:
            for task, seen in tower(inputs[POSITIONS]).items():
                outputs[task] = seen * outputs[task]
        for task in parents_first(self.tasks):
            parent = self.tasks[task].parent
            if parent is not None:  # The head knows that the parent happened.
                outputs[task] = outputs[parent] * outputs[task]
        if not training:
            for task, calibration in self.calibrations.items():
                outputs[task] = calibration(outputs[task], inputs)
        return outputs

    def _in_own_unit(self, task: str, outputs: Tensor) -> Tensor:
        if task not in self.target_scales:
            return outputs
        return self.constants[task] + self.target_scales[task] * outputs

    def compute_output_shape(
        self, input_shape: Mapping[str, Shape]
    ) -> dict[str, Shape]:
        batch = next(iter(input_shape.values()))[0]
        return {
            task: (batch, self.num_classes.get(task, 1)) for task in self.tasks
        }

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "tasks": declarations(self.tasks),
            "mixture": keras.saving.serialize_keras_object(self.mixture),
            "head_units": self.head_units,
            "num_classes": self.num_classes,
            "constants": self.constants,
            "target_scales": self.target_scales,
            "num_positions": self.num_positions,
            "calibrations": {
                task: calibration.model_dump()
                for task, calibration in self.calibrations.items()
            },
        }


def _types(columns: Mapping[str, Kind]) -> dict[str, str]:
    return {name: kind.type for name, kind in columns.items()}


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
