from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_moe.layers import BudgetGate
from keras_moe.layers import SoftmaxGate
from recsys.training.callbacks.same_state import SameState


class Group:
    """The second of two processes; the other one has zeros everywhere."""

    index = 1
    count = 2
    in_one_process = False

    def mean(self, values: Any) -> Any:
        return values / 2

    def copy_of_first(self, variables: Sequence[keras.Variable]) -> None:
        for variable in variables:
            variable.assign(np.zeros(variable.shape))

    def on_each(self, function: Callable[[], None]) -> None:
        function()


def test_processes_begin_alike_but_for_their_random_numbers() -> None:
    inputs = keras.Input((3,))
    hidden = keras.layers.Dropout(0.5, seed=1)(keras.layers.Dense(2)(inputs))
    model = keras.Model(inputs, keras.layers.BatchNormalization()(hidden))
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    group: Any = Group()
    callback = SameState(group)
    callback.set_model(model)
    callback.on_train_begin()
    *others, seed = sorted(
        [*model.variables, *model.optimizer.variables],
        key=lambda variable: variable.name == "seed_generator_state",
    )
    assert all(not np.any(variable.numpy()) for variable in others)
    first, count = seed.numpy().tolist()
    assert first > 0
    assert count == 0


def test_thresholds_of_budgets_are_averaged_after_an_epoch() -> None:
    gate = BudgetGate(SoftmaxGate(4), k=2)
    model = keras.Sequential([keras.Input((3,)), gate])
    gate(np.random.default_rng(0).normal(size=(8, 3)), training=True)
    thresholds = gate.thresholds.numpy()
    group: Any = Group()
    callback = SameState(group)
    callback.set_model(model)
    callback.on_epoch_end(0)
    np.testing.assert_allclose(gate.thresholds.numpy(), thresholds / 2)
    assert int(gate.num_updates.numpy()) == 1


def test_state_that_rows_move_is_averaged_after_an_epoch() -> None:
    model = keras.Sequential([keras.layers.BatchNormalization()])
    model.build((None, 2))
    trained, moved = model.layers[0].gamma, model.layers[0].moving_variance
    group: Any = Group()
    callback = SameState(group)
    callback.set_model(model)
    callback.on_epoch_end(0)
    np.testing.assert_array_equal(moved.numpy(), [0.5, 0.5])
    np.testing.assert_array_equal(trained.numpy(), [1.0, 1.0])
