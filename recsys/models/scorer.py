from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.layers import record_routing
from keras_moe.ops import is_selected
from recsys.data import Split
from recsys.feeding import InputBatches
from recsys.feeding import feed
from recsys.models.multi_task_model import MultiTaskModel
from recsys.tensorflow_log import relevant_log


@dataclass(frozen=True)
class Scores:
    """What a model says about each row of a split.

    Attributes:
        predictions: For each task, float64 array `(rows,)`, or
            `(rows, classes)` for a multiclass task.
        experts: For each task, how many experts had weight, array
            `(rows,)`; where experts come in levels, the mean of the levels.
            Without experts, empty.
    """

    predictions: dict[str, Any]
    experts: dict[str, Any]


class Scorer(keras.Model):
    """Predictions and numbers of experts from one compiled pass.

    Args:
        model: The model to run; it is not changed, and may be trained on
            between two calls.
        batch_size: Rows in a step; as many as suit the model unless given.
    """

    def __init__(
        self, model: MultiTaskModel, batch_size: int | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.batch_size = batch_size or model.rows_per_step
        self.built = True

    def call(self, inputs: Any) -> Any:
        with record_routing() as records:
            predictions = self.model(inputs, training=False)
        experts = {
            task: _mean_counts(
                [
                    # A mixture for all tasks has weights under its own name.
                    record.weights.get(task, record.weights.get(only))
                    for record in records
                    for only in [record.mixture.name]
                ]
            )
            for task in self.model.tasks
            if records
        }
        return predictions, experts

    def score(self, split: Split) -> Scores:
        """Runs the model on rows with its features.

        Args:
            split: As `encode` of the model takes it.
        """
        tasks = self.model.tasks  # JAX returns dicts in another order.
        if not len(split):
            nothing = dict.fromkeys(tasks, np.zeros(0))
            return Scores(nothing, nothing)
        with relevant_log():
            batches = InputBatches(self.model.encode(split), self.batch_size)
            predictions, experts = self.predict(feed(batches), verbose=0)
        return Scores(
            {task: _without_unit_axis(predictions[task]) for task in tasks},
            {task: experts[task] for task in tasks if task in experts},
        )


def _without_unit_axis(outputs: Any) -> Any:
    """Float64 `(rows,)` where there is one output per row, else as it is."""
    outputs = np.asarray(outputs, np.float64)
    return outputs[:, 0] if outputs.shape[1] == 1 else outputs


def _mean_counts(levels: list[Any]) -> Any:
    """How many experts the weights of each level select, on average."""
    counts = [
        ops.sum(ops.cast(is_selected(weights), "float32"), axis=-1)
        for weights in levels
    ]
    return ops.mean(ops.stack(counts), axis=0)
