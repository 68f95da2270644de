from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pandas as pd
from keras import ops

from keras_moe.layers import record_routing
from keras_moe.ops.selected import is_selected
from recsys.models.ranker import Ranker
from recsys.tensorflow_log import relevant_log


@dataclass(frozen=True)
class Scores:
    """What a ranker says about each row of a table.

    Attributes:
        predictions: For each task, float64 array `(rows,)`.
        experts: For each task, how many experts had weight, array
            `(rows,)`; where experts come in levels, the mean of the levels.
            Without experts, empty.
    """

    predictions: dict[str, Any]
    experts: dict[str, Any]


class Scorer(keras.Model):
    """Predictions and numbers of experts from one compiled pass.

    Args:
        ranker: The model to run; it is not changed, and may be trained on
            between two calls.
        batch_size: Rows in a step.
    """

    def __init__(self, ranker: Ranker, batch_size: int = 4096) -> None:
        super().__init__()
        self.ranker = ranker
        self.batch_size = batch_size
        self.built = True

    def call(self, inputs: Any) -> Any:
        with record_routing() as records:
            predictions = self.ranker(inputs, training=False)
        experts = {
            task: _mean_counts(
                [
                    # A mixture for all tasks has weights under its own name.
                    record.weights.get(task, record.weights.get(only))
                    for record in records
                    for only in [record.mixture.name]
                ]
            )
            for task in self.ranker.tasks
            if records
        }
        return predictions, experts

    def score(self, frame: pd.DataFrame) -> Scores:
        """Runs the ranker on a table with its features.

        Args:
            frame: As `Ranker.encode` takes it.
        """
        if frame.empty:
            nothing = dict.fromkeys(self.ranker.tasks, np.zeros(0))
            return Scores(nothing, nothing)
        with relevant_log():
            predictions, experts = self.predict(
                self.ranker.encode(frame),
                batch_size=self.batch_size,
                verbose=0,
            )
        tasks = self.ranker.tasks  # JAX returns dicts in another order.
        return Scores(
            {
                task: np.asarray(predictions[task][:, 0], np.float64)
                for task in tasks
            },
            {task: experts[task] for task in tasks if task in experts},
        )


def _mean_counts(levels: list[Any]) -> Any:
    """How many experts the weights of each level select, on average."""
    counts = [
        ops.sum(ops.cast(is_selected(weights), "float32"), axis=-1)
        for weights in levels
    ]
    return ops.mean(ops.stack(counts), axis=0)
