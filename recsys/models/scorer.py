from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import pandas as pd
from keras import ops

from keras_moe.distribution import on_all_devices
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import record_routing
from keras_moe.ops import is_selected
from keras_moe.types import Tensor
from recsys.data import Split
from recsys.data.streaming.pool_reader import Arrays
from recsys.data.streaming.split_stream import SplitStream
from recsys.distribution.process_group import all_outputs
from recsys.distribution.process_group import num_shares
from recsys.metrics import ExpertUse
from recsys.models.expert_use import batch_use
from recsys.models.expert_use import whole_use
from recsys.models.feeding import InputBatches
from recsys.models.feeding import StreamedInputs
from recsys.models.feeding import feed
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.position_tower import POSITIONS
from recsys.models.position_tower import encoded_positions
from recsys.models.traced_once import TracedOnce
from recsys.terminal.tensorflow_log import relevant_log


@dataclass(frozen=True)
class Scores:
    """Outputs of a model for each row of a split.

    Attributes:
        predictions: For each task, float64 array `(rows,)`, or
            `(rows, classes)` for a multiclass task.
        experts: For each task, how many experts had weight, array
            `(rows,)`; where experts come in levels, the mean of the levels.
            Without experts, empty.
        loads: For each task and each level of experts, how many rows select
            each expert, float64 array `(n,)`. Without experts, empty.
        use: For each task and each level of experts, which experts rows give
            weight. Without experts, empty.
        evaluated: How many experts have to run for a row, array `(rows,)`:
            those that any task selects, each once. `None` without experts,
            and where a task has experts of its own.
    """

    predictions: dict[str, np.ndarray]
    experts: dict[str, np.ndarray]
    loads: dict[str, list[np.ndarray]] = field(default_factory=dict)
    use: dict[str, list[ExpertUse]] = field(default_factory=dict)
    evaluated: np.ndarray | None = None

    @classmethod
    def constant(
        cls, constants: Mapping[str, float | Sequence[float]], rows: int
    ) -> "Scores":
        """Returns the same predictions for every row, made by no expert.

        Args:
            constants: By task, what is predicted: a number, or one per class.
            rows: How many rows.
        """
        return cls(
            {
                task: np.repeat(np.asarray(constant, np.float64)[None], rows, 0)
                for task, constant in constants.items()
            },
            {},
        )

    def of_rows(self, chosen: npt.NDArray[np.bool_]) -> "Scores":
        """Returns what is said of some rows, without loads and use, of all.

        Args:
            chosen: Boolean array `(rows,)`.
        """
        evaluated = self.evaluated
        return Scores(
            {task: values[chosen] for task, values in self.predictions.items()},
            {task: counts[chosen] for task, counts in self.experts.items()},
            evaluated=None if evaluated is None else evaluated[chosen],
        )


class Scorer(TracedOnce):
    """Predictions and numbers of experts from one compiled pass.

    Args:
        model: The model to run; it is not changed, and may be trained on
            between two calls.
        batch_size: Rows in a step; as many as suit the model unless given.
        budget: Experts per row on average; that of the model's gates unless
            given.
        position: Column with the positions of rows, for the probability of
            what happens there, by a model with a position tower; as if they
            were seen unless given.

    Raises:
        RunError: The tasks of the model were not trained.
    """

    def __init__(
        self,
        model: MultiTaskModel,
        batch_size: int | None = None,
        budget: float | None = None,
        position: str | None = None,
    ) -> None:
        super().__init__()
        model.check_trained_tasks("the model")
        self.model = model
        self.budget = budget
        self.position = position
        self.batch_size = batch_size or model.rows_per_step
        self.built = True

    def call(
        self, inputs_and_counts: tuple[Mapping[str, Tensor], Tensor]
    ) -> Any:
        inputs, counts = inputs_and_counts
        with record_routing() as records:
            predictions = self.model(inputs, training=False, budget=self.budget)
        weights = {
            task: [
                # A mixture for all tasks has weights under its own name.
                record.weights.get(task, record.weights.get(only))
                for record in records
                for only in [record.mixture.name]
            ]
            for task in self.model.tasks
            if records
        }
        selected = {task: [*map(_selected, weights[task])] for task in weights}
        experts = {task: _mean_counts(selected[task]) for task in selected}
        # A row for each batch, which `predict` puts one below the other.
        loads = {
            task: [
                ops.sum(counts[:, None] * weight, axis=0, keepdims=True)
                for weight in selected[task]
            ]
            for task in selected
        }
        use = {
            task: [batch_use(weight, counts) for weight in weights[task]]
            for task in weights
        }
        shared = all(
            isinstance(record.mixture, MoE | MMoE) for record in records
        )
        evaluated = [_count_of_all(selected)] if records and shared else []
        scores = (predictions, experts, loads, use, evaluated)
        return all_outputs(on_all_devices(scores))

    def score(self, split: Split) -> Scores:
        """Runs the model on rows with its features.

        Args:
            split: As `encode` of the model takes it.
        """
        tasks = self.model.tasks  # JAX returns dicts in another order.
        if not len(split):
            nothing = self.model.no_predictions()
            return Scores(
                {task: _without_unit_axis(nothing[task]) for task in tasks},
                dict.fromkeys(tasks, np.zeros(0)),
            )
        with relevant_log():
            batches = feed(
                self._batches(split), varying=isinstance(split, SplitStream)
            )
            outputs = self.predict(batches, verbose=0)
        predictions, experts, loads, use, evaluated = outputs
        predictions, experts, evaluated = keras.tree.map_structure(
            lambda values: values[: len(split)],
            (predictions, experts, evaluated),
        )
        routed = [task for task in tasks if task in experts]
        return Scores(
            {task: _without_unit_axis(predictions[task]) for task in tasks},
            {task: experts[task] for task in routed},
            {task: [_total(load) for load in loads[task]] for task in routed},
            {
                task: [whole_use(batches, len(split)) for batches in use[task]]
                for task in routed
            },
            *evaluated,
        )

    def _batches(self, split: Split) -> keras.utils.PyDataset:
        devices = num_shares()
        size = -(-self.batch_size // devices) * devices
        if isinstance(split, SplitStream):
            return _Shares(StreamedInputs(split, self._encoded, size), devices)
        return _Shares(InputBatches(self._inputs(split), size), devices)

    def _encoded(self, rows: pd.DataFrame) -> Arrays:
        return (self._inputs(rows),)

    def _inputs(self, rows: Any) -> dict[str, np.ndarray]:
        inputs = self.model.encode(rows)
        if self.position is not None and self.model.num_positions:
            inputs[POSITIONS] = encoded_positions(rows[self.position])
        return inputs


class _Shares(keras.utils.PyDataset):
    """Batches of inputs whose rows divide among the devices.

    Those that the last batch lacks repeat its last row, and count nothing.

    Args:
        batches: The batches; all but the last one divide.
        devices: Number of devices.
    """

    def __init__(self, batches: keras.utils.PyDataset, devices: int) -> None:
        super().__init__()
        self._batches = batches
        self._devices = devices

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(
        self, index: int
    ) -> tuple[tuple[dict[str, np.ndarray], np.ndarray]]:
        (inputs,) = self._batches[index]
        rows = len(next(iter(inputs.values())))
        more = -rows % self._devices
        counts = np.repeat(np.array([1, 0], np.float32), [rows, more])
        if more:
            inputs = {
                name: np.concatenate([values, *[values[-1:]] * more])
                for name, values in inputs.items()
            }
        return ((inputs, counts),)


def _without_unit_axis(outputs: np.ndarray) -> np.ndarray:
    """Float64 `(rows,)` where there is one output per row, else as it is."""
    outputs = np.asarray(outputs, np.float64)
    return outputs[:, 0] if outputs.shape[1] == 1 else outputs


def _selected(weights: Any) -> Tensor:
    """1 for each expert that a row selects, `(rows, n)`."""
    return ops.cast(is_selected(weights), "float32")


def _count_of_all(selected: dict[str, list[Tensor]]) -> Tensor:
    """Number of experts selected by any task of each row."""
    counts = [
        ops.sum(ops.max(ops.stack(tasks), axis=0), axis=-1)
        for tasks in zip(*selected.values(), strict=True)  # Of one level.
    ]
    return ops.mean(ops.stack(counts), axis=0)


def _mean_counts(levels: list[Tensor]) -> Tensor:
    """Number of experts selected by each row, averaged over levels."""
    counts = [ops.sum(selected, axis=-1) for selected in levels]
    return ops.mean(ops.stack(counts), axis=0)


def _total(of_batches: np.ndarray) -> np.ndarray:
    return np.asarray(of_batches, np.float64).sum(axis=0)
