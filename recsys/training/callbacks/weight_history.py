"""Histories of weights: of the experts of each task, and of the tasks."""

from pathlib import Path

import keras
import numpy as np
import pandas as pd

from keras_moe.callbacks import RoutingMonitor
from keras_moe.types import Logs
from recsys.files.atomic import replacing
from recsys.measuring.curves import read_weights
from recsys.private_names import write_state_back
from recsys.weighting.task_weighting import TaskWeighting


class WeightHistory(keras.callbacks.Callback):
    """Writes what a `RoutingMonitor` measures of the experts' weights.

    The file is a CSV with the columns epoch, task, expert and weight: after
    so many epochs (0: before training) the task gives the expert that weight,
    on average over the monitor's sample. It is whole after every epoch. A
    training that goes on keeps what the file says of the epochs before.

    Args:
        file: The file to write.
        monitor: The monitor; it comes before this one among the callbacks.
    """

    def __init__(self, file: Path, monitor: RoutingMonitor) -> None:
        super().__init__()
        self.file = file
        self.monitor = monitor
        self.written: list[pd.DataFrame] = []

    def on_train_begin(self, logs: Logs | None = None) -> None:
        if self.file.is_file():
            self.written = [read_weights(self.file)]

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        # An epoch that was not finished by a checkpoint is measured again; the
        # weights that a training goes on with may not be those it had measured.
        first = self.monitor.epochs[0]
        rows = weight_table(self.monitor)
        for table in self.written:
            kept = table[table["epoch"] <= first]
            new = rows[~rows["epoch"].isin(kept["epoch"])]
            rows = pd.concat([kept, new])
        with replacing(self.file) as unfinished:
            rows.to_csv(unfinished, index=False)


def weight_table(monitor: RoutingMonitor) -> pd.DataFrame:
    """Returns a monitor's weights as a table: epoch, task, expert, weight."""
    parts = []
    for task, weights in monitor.weights.items():
        measurement, expert = np.indices(weights.shape)
        parts.append(
            pd.DataFrame(
                {
                    "epoch": np.asarray(monitor.epochs)[measurement.ravel()],
                    "task": task,
                    "expert": expert.ravel(),
                    "weight": weights.ravel(),
                }
            )
        )
    return pd.concat(parts).sort_values("epoch", kind="stable")


class TaskWeightHistory(keras.callbacks.Callback):
    """Logs `<task>_task_weight`, each task's mean weight in an epoch's steps.

    Methods that look back on whole epochs are told here that one has ended, so
    it belongs before the checkpoint.

    Args:
        weighting: The weighting of the model that is being trained.
    """

    def __init__(self, weighting: TaskWeighting) -> None:
        super().__init__()
        self.weighting = weighting

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if keras.backend.backend() == "jax":
            write_state_back(self.model)
        weights = self.weighting.end_epoch()
        if logs is not None:
            for task, weight in weights.items():
                logs[f"{task}_task_weight"] = weight
