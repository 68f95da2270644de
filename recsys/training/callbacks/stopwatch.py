from time import perf_counter
from typing import Any

import keras


class Stopwatch(keras.callbacks.Callback):
    """Logs the `seconds` that the training steps of each epoch took.

    It belongs before the callbacks that work at the end of an epoch.
    """

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        self.start = perf_counter()

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        if logs is not None:
            logs["seconds"] = perf_counter() - self.start
