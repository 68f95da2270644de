from collections.abc import Callable
from typing import cast

import keras
import numpy as np
import pytest

from keras_moe.types import Logs
from recsys.measuring.epoch_choice import EpochChoice
from recsys.training.callbacks.better_weights import BetterWeights
from recsys.training.callbacks.epoch_average import EpochAverage
from recsys.training.callbacks.validation import Validation

Figure = Callable[[float], float]


class _Validation:
    """Logs figures of a model with one weight."""

    def __init__(self, model: keras.Model, figures: dict[str, Figure]) -> None:
        self.model = model
        self.figures = figures

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        assert logs is not None
        weight = of_first(self.model)
        logs |= {name: of(weight) for name, of in self.figures.items()}


def of_first(model: keras.Model) -> float:
    return float(model.get_weights()[0][0, 0])


def left_after(
    values: list[float], choice: EpochChoice, figures: dict[str, Figure]
) -> list[tuple[float, float, dict[str, float]]]:
    """Of each epoch: the weight left, whether averaged, and what was logged."""
    model = keras.Sequential(
        [keras.Input((1,)), keras.layers.Dense(1, use_bias=False)]
    )
    average = EpochAverage(model.trainable_variables, 0.5, takes_place=False)
    validation = cast(Validation, _Validation(model, figures))
    better = BetterWeights(average, validation, choice)
    left = []
    for epoch, value in enumerate(values):
        average.on_epoch_begin(epoch)
        if epoch:  # Training goes on with its own weights.
            assert of_first(model) == values[epoch - 1]
        model.set_weights([np.full((1, 1), value, np.float32)])
        logs: dict[str, float] = {}
        average.on_epoch_end(epoch, logs)
        better.on_epoch_end(epoch, logs)
        averaged = logs.pop("averaged")
        left.append((of_first(model), averaged, logs))
    return left


# Of the weights 4, -2, 5 and 2 the averages are 4, 1, 3 and 2.5.
VALUES = [4.0, -2.0, 5.0, 2.0]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_better_weights_are_left(sign: float) -> None:
    def distance(weight: float) -> float:
        return sign * abs(weight - 2)

    choice = EpochChoice("distance", higher=sign < 0)
    left = left_after(VALUES, choice, {"distance": distance, "own": float})
    assert [weight for weight, _, _ in left] == [4.0, 1.0, 3.0, 2.0]
    assert [averaged for _, averaged, _ in left] == [0.0, 1.0, 1.0, 0.0]
    for weight, _, logs in left:  # Theirs, not those of the others.
        assert logs == {"distance": distance(weight), "own": weight}


@pytest.mark.parametrize("column", ["constant", "epoch"])
def test_a_tie_leaves_the_last_weights(column: str) -> None:
    """As does a choice that no validation has anything of."""
    choice = EpochChoice(column)
    left = left_after(VALUES, choice, {"constant": lambda weight: 1.0})
    assert [weight for weight, _, _ in left] == VALUES
    assert {averaged for _, averaged, _ in left} == {0.0}
