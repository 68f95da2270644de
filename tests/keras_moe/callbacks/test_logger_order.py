import keras
import pytest

from keras_moe.callbacks.logger_order import move_before_loggers


class Marked(keras.callbacks.Callback):
    def set_model(self, model):
        super().set_model(model)
        move_before_loggers(self)


class Descendant(Marked):
    def set_model(self, model):
        super().set_model(model)


def order(callbacks, model):
    callback_list = keras.callbacks.CallbackList(callbacks, model=model)
    assert all(callback.model is model for callback in callbacks)
    return callback_list.callbacks


@pytest.fixture
def model():
    return keras.Sequential([keras.layers.Dense(1)])


@pytest.fixture
def logger(tmp_path):
    return keras.callbacks.CSVLogger(tmp_path / "log.csv")


@pytest.mark.parametrize("callback_class", [Marked, Descendant])
def test_moves_ahead_of_the_first_logger_and_nothing_else(
    callback_class, logger, model
):
    before, between = keras.callbacks.Callback(), keras.callbacks.Callback()
    after, marked = keras.callbacks.Callback(), callback_class()
    assert order([before, logger, between, marked, after], model) == [
        before,
        marked,
        logger,
        between,
        after,
    ]


def test_stays_where_no_logger_stands_before_it(logger, model):
    callbacks = [keras.callbacks.Callback(), Marked(), logger]
    assert order(callbacks, model) == callbacks


def test_outside_of_a_list_nothing_happens(model):
    Marked().set_model(model)
