import math
from collections.abc import Callable
from collections.abc import Sequence

import keras

from keras_moe.types import Logs


class RateDecay(keras.callbacks.Callback):
    """Lowers the learning rate after each epoch that was no better.

    An epoch has the learning rate times factor^n, with n the epochs before it
    that were behind their best predecessor. It depends on nothing but their
    costs, so a training that is resumed goes on with the same rate.

    Args:
        rate: The learning rate of the first epoch.
        factor: What it is multiplied by, above 0 and at most 1.
        costs: Returns what is to be low in each epoch that is over, that of
            the first one first.
    """

    def __init__(
        self, rate: float, factor: float, costs: Callable[[], Sequence[float]]
    ) -> None:
        super().__init__()
        self.rate = rate
        self.factor = factor
        self.costs = costs

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self.current = self.rate * self.factor ** setbacks(self.costs()[:epoch])
        self.model.optimizer.learning_rate = self.current

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if logs is not None:
            logs["learning_rate"] = self.current


def setbacks(costs: Sequence[float]) -> int:
    """Returns how many costs are not below all before them.

    Example:
    >>> setbacks([0.7, 0.6, 0.6, 0.8, 0.5])
    2
    """
    best, count = math.inf, 0
    for cost in costs:
        count += not cost < best
        best = min(best, cost)
    return count
