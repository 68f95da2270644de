"""The line of an epoch, and the seconds in it."""

import shutil
import sys
import time
from collections.abc import Mapping
from time import perf_counter
from typing import TextIO

import keras

from keras_moe.types import Logs
from recsys.measuring.epoch_choice import VALIDATION_RETRIEVAL
from recsys.measuring.task_scores import progress_scores

_SECONDS = 0.2  # Between two updates of a terminal's line.


class ProgressLine(keras.callbacks.Callback):
    """A line for each epoch, key figures first, as wide as the terminal.

    On a terminal it also counts the steps. What has no place in the line is in
    `history.csv`.

    Args:
        tasks: Names of the tasks.
        file: Where to write it; the standard output unless given.
        k: How many items, and how many rows of a group, metrics of rankings
            look at. Defaults to 10.
    """

    def __init__(
        self, tasks: list[str], file: TextIO | None = None, k: int = 10
    ) -> None:
        super().__init__()
        self.file = file or sys.stdout
        self.names = ["loss", "val_loss"]
        # Before its loss: 80 columns have no place for both.
        self.names.append(f"{VALIDATION_RETRIEVAL}ndcg@{k}")
        self.names.append("retrieval_loss")
        self.names.append("experts_per_example")
        self.names += [
            f"val_{task}_{name}"
            for name in (*progress_scores(k), "loss")
            for task in tasks
        ]

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self.title = f"Epoch {epoch + 1}/{self.params['epochs']}"
        self.start = time.monotonic()
        self.updated = 0.0

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        now = time.monotonic()
        if self.file.isatty() and now - self.updated > _SECONDS:
            self.updated = now
            steps = self.params["steps"]
            step = f"step {batch + 1}" + (f"/{steps}" if steps else "")
            loss = {name: (logs or {}).get(name) for name in ("loss",)}
            self._write([step, *_figures(loss)], end="")

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        logs = logs or {}
        shown = {name: logs.get(name) for name in self.names}
        self._write(_figures(shown), end="\n")

    def _write(self, figures: list[str], end: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        line = f"{self.title}  {time.monotonic() - self.start:.0f} s"
        for figure in figures:
            if len(line) + len(figure) + 2 > width:
                break
            line += f"  {figure}"
        # The line that stands there may be longer.
        begin, fill = ("\r", width) if self.file.isatty() else ("", 0)
        self.file.write(f"{begin}{line:<{fill}}{end}")
        self.file.flush()


def _figures(logs: Mapping[str, float | None]) -> list[str]:
    """The figures that are there, each with its name."""
    return [
        f"{name.replace('_per_example', '')} {float(value):.4g}"
        for name, value in logs.items()
        if value is not None
    ]


class Stopwatch(keras.callbacks.Callback):
    """Logs the `seconds` that the training steps of each epoch took.

    It belongs before the callbacks that work at the end of an epoch.
    """

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self.start = perf_counter()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if logs is not None:
            logs["seconds"] = perf_counter() - self.start
