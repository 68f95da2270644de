"""What ends a training early: Ctrl-C, or a loss that is not finite."""

import math
import signal
import threading
from types import FrameType

import keras

from keras_moe.types import Logs
from recsys.errors import NonFiniteLossError


class Interruption(keras.callbacks.Callback):
    """Lets Ctrl-C end training between two batches instead of within one.

    A context manager around `fit`. The first Ctrl-C raises KeyboardInterrupt
    once the batch, or the evaluation of an epoch, is done; a second one acts
    at once. Outside of the main thread, which alone gets signals, it does
    nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.requested = False

    def __enter__(self) -> "Interruption":
        self.installed = threading.current_thread() is threading.main_thread()
        if self.installed:
            self.previous = signal.signal(signal.SIGINT, self._request)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.installed:
            signal.signal(signal.SIGINT, self.previous)
        if self.requested and kind is None:
            raise KeyboardInterrupt  # It came after the last batch.

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        signal.signal(signal.SIGINT, self.previous)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        if self.requested:
            raise KeyboardInterrupt


class FiniteLoss(keras.callbacks.Callback):
    """Stops training at the first step whose loss is NaN or infinite.

    A context manager around `fit`: PyTorch raises an error of its own when
    probabilities are NaN, before there is a loss.
    """

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0
        self.batch = 0

    def __enter__(self) -> "FiniteLoss":
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is RuntimeError and "between 0 and 1" in str(error):
            self._stop(math.nan)

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self.epoch = epoch

    def on_train_batch_begin(
        self, batch: int, logs: Logs | None = None
    ) -> None:
        self.batch = batch

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        # The running mean of the epoch: finite as long as every step's is.
        loss = float((logs or {})["loss"])
        if not math.isfinite(loss):
            self._stop(loss)

    def _stop(self, loss: float) -> None:
        raise NonFiniteLossError(
            "The training loss must stay finite; a lower learning rate may "
            f"help. Received: a loss of {loss} in epoch {self.epoch + 1}, "
            f"step {self.batch + 1}"
        )
