from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_moe.types import Logs


class EpochAverage(keras.callbacks.Callback):
    """Keeps an average of the weights after each epoch.

    With x_t the weights after epoch t, counted from 0, the average is

        a_t = a_{t-1} + max(1 - decay, 2 / (t + 3)) (x_t - a_{t-1})

    and a_0 = x_0. It can stand in their place from the end of an epoch to the
    beginning of the next one, for the callbacks in between; `variables` have
    what it changes places with and whether it did, and belong into checkpoints.

    Args:
        weights: The weights, of a built model, which this process has whole.
        decay: Float in `[0, 1)`, how much of the average stays in the end.
            Defaults to 0.8.
        takes_place: Whether it does so by itself after each epoch; if not, it
            is for `change_places`. Defaults to `True`.

    References:
        Polyak and Juditsky. Acceleration of Stochastic Approximation by
        Averaging. SIAM J. Control and Optimization 1992. Shamir and Zhang.
        Stochastic Gradient Descent for Non-smooth Optimization. ICML 2013,
        section 4, for an average that forgets the first steps.
    """

    def __init__(
        self,
        weights: Sequence[keras.Variable],
        decay: float = 0.8,
        takes_place: bool = True,
    ) -> None:
        super().__init__()
        self.weights = list(weights)
        self.decay = decay
        self.takes_place = takes_place
        self.averages = [
            keras.Variable(
                np.array(_value(weight)),
                dtype=weight.dtype,
                trainable=False,
                name=f"{weight.name}_average",
            )
            for weight in self.weights
        ]
        self.in_place = keras.Variable(
            0, dtype="int32", trainable=False, name="average_in_place"
        )

    @property
    def variables(self) -> list[keras.Variable]:
        """Its state."""
        return [*self.averages, self.in_place]

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        if _value(self.in_place):
            self.change_places()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        share = 1.0 if not epoch else max(1 - self.decay, 2 / (epoch + 3))
        # In NumPy: JAX would compile each operation for each shape.
        for average, weight in zip(self.averages, self.weights, strict=True):
            before = _value(average)
            average.assign(before + share * (_value(weight) - before))
        if self.takes_place:
            self.change_places()

    def change_places(self) -> None:
        """Puts the average where the weights are, or these back."""
        for average, weight in zip(self.averages, self.weights, strict=True):
            value = np.array(_value(weight))
            weight.assign(_value(average))
            average.assign(value)
        self.in_place.assign(1 - _value(self.in_place))


def _value(variable: keras.Variable) -> np.ndarray:
    return np.asarray(ops.convert_to_numpy(variable))
