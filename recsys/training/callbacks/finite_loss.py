import math

import keras

from keras_moe.types import Logs
from recsys.errors import NonFiniteLossError


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
