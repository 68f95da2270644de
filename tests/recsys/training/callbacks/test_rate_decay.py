import math

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.training.callbacks.rate_decay import RateDecay
from recsys.training.compile_model import create_optimizer

ANY_COSTS = st.lists(st.sampled_from([0.1, 0.2, 0.3, math.nan]), max_size=6)


def model_of(optimizer: keras.optimizers.Optimizer) -> keras.Model:
    model = keras.Sequential(
        [keras.Input((1,)), keras.layers.Dense(1, use_bias=False)]
    )
    model.compile(optimizer, loss="mae")
    return model


def rates(costs: list[float]) -> list[float]:
    """The rate of each epoch and of the one after them, with a factor of ½."""
    callback = RateDecay(0.8, 0.5, lambda: costs)
    callback.set_model(model_of(keras.optimizers.SGD(0.8)))
    found = []
    for epoch in range(len(costs) + 1):
        logs: dict[str, float] = {}
        callback.on_epoch_begin(epoch)
        callback.on_epoch_end(epoch, logs)
        found.append(logs["learning_rate"])
    return found


@pytest.mark.once("torch")
def test_an_epoch_that_is_no_better_halves_the_rate() -> None:
    assert rates([0.5, 0.4, 0.4, 0.3, 0.6]) == [0.8, 0.8, 0.8, 0.4, 0.4, 0.2]


@pytest.mark.once("torch")
@given(ANY_COSTS)
def test_the_rate_falls_exactly_after_such_epochs(costs: list[float]) -> None:
    found, best = rates(costs), math.inf
    for cost, rate, after in zip(costs, found, found[1:], strict=False):
        assert after == (rate if cost < best else rate / 2)
        best = min(best, cost)
    assert found[0] == 0.8


@pytest.mark.parametrize("by_rows", [False, True], ids=["plain", "by rows"])
def test_steps_are_as_long_as_the_rate_says(by_rows: bool) -> None:
    optimizer: keras.optimizers.Optimizer = keras.optimizers.SGD(0.8)
    if by_rows:
        optimizer = create_optimizer("adam", 0.8, "lazy-adam")
    model = model_of(optimizer)
    weight = model.trainable_variables[0]
    costs = [0.3, 0.4, 0.2, 0.2]
    weight.assign([[100.0]])
    seen = [100.0]
    note = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(weight.numpy().item())
    )
    model.fit(
        np.ones((1, 1)),
        np.zeros((1, 1)),
        epochs=4,
        callbacks=[RateDecay(0.8, 0.5, lambda: costs), note],
        verbose=0,
    )
    # The slope is 1, and steps of Adam are then as long as the rate.
    np.testing.assert_allclose(-np.diff(seen), [0.8, 0.8, 0.4, 0.4], rtol=1e-3)
