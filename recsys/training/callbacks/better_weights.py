import math

import keras

from keras_moe.types import Logs
from recsys.measuring.epoch_choice import EpochChoice
from recsys.training.callbacks.epoch_average import EpochAverage
from recsys.training.callbacks.validation import Validation

AVERAGED = "averaged"  # The column of a history that says which they were.


class BetterWeights(keras.callbacks.Callback):
    """Validates an epoch's weights and their average, and leaves the better.

    An average lags behind while each epoch improves, and is ahead where they
    learn the training rows by heart. The logs get the metrics of those that
    are left, and `averaged`: 1.0 for the average, else 0.0, also of a tie.

    Args:
        average: The average, which does not take its place by itself; it comes
            before this one among the callbacks.
        validation: Adds what is compared to the logs.
        choice: What says which is the better.
    """

    def __init__(
        self,
        average: EpochAverage,
        validation: Validation,
        choice: EpochChoice,
    ) -> None:
        super().__init__()
        self.average = average
        self.validation = validation
        self.choice = choice

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        kept = self._validated(epoch)
        averaged = False
        if epoch:  # After the first one they are the same.
            self.average.change_places()
            of_average = self._validated(epoch)
            averaged = self._cost(of_average) < self._cost(kept)
            if averaged:
                kept = of_average
            else:
                self.average.change_places()
        if logs is not None:
            logs |= {**kept, AVERAGED: float(averaged)}

    def _validated(self, epoch: int) -> dict[str, float]:
        logs: dict[str, float] = {}
        self.validation.on_epoch_end(epoch, logs)
        return logs

    def _cost(self, logs: dict[str, float]) -> float:
        """What is to be low; that of an epoch's number is no comparison."""
        column = self.choice.column
        if column not in logs:
            return math.inf
        return self.choice.cost(logs[column])
