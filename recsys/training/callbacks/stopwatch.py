from time import perf_counter

import keras

from keras_moe.types import Logs


class Stopwatch(keras.callbacks.Callback):
    """Logs the `seconds` that the training steps of each epoch took.

    It belongs before the callbacks that work at the end of an epoch.
    """

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self.start = perf_counter()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if logs is not None:
            logs["seconds"] = perf_counter() - self.start
