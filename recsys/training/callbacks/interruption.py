import signal
import threading
from types import FrameType

import keras

from keras_moe.types import Logs


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
